package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/siltstone-data/siltstone/merger"
)

// mergeFolder merges the batch in a folder, in this process.
func mergeFolder(ctx context.Context, dir, work, profile string) error {
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return errors.Join(err, f.Close())
		}
		defer func() { pprof.StopCPUProfile(); _ = f.Close() }()
	}
	engine, err := merger.New(&folder{dir: dir}, nil, merger.Config{WorkDir: work, By: "bench"}, nil, nil)
	if err != nil {
		return err
	}
	res, err := engine.Merge(ctx, theBatch)
	if err == nil && !res.Committed {
		err = fmt.Errorf("nothing was merged: %+v", res)
	}
	return err
}
