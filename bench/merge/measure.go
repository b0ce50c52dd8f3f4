package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// cost is what one run of a process took.
type cost struct {
	cpu, wall time.Duration
	server    time.Duration // CPU of the store's own process
	rss       int64         // largest, in bytes
}

// measure runs a command to its end.
func measure(ctx context.Context, env []string, name string, args ...string) (cost, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return cost{}, fmt.Errorf("%s %v: %w", name, args, err)
	}
	c := cost{wall: time.Since(start), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.rss = usage.Maxrss << 10
	}
	return c, nil
}

// median of each figure by itself.
func median(costs []cost) cost {
	pick := func(of func(cost) int64) int64 {
		var all []int64
		for _, c := range costs {
			all = append(all, of(c))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return cost{
		cpu:    time.Duration(pick(func(c cost) int64 { return int64(c.cpu) })),
		wall:   time.Duration(pick(func(c cost) int64 { return int64(c.wall) })),
		server: time.Duration(pick(func(c cost) int64 { return int64(c.server) })),
		rss:    pick(func(c cost) int64 { return c.rss }),
	}
}
