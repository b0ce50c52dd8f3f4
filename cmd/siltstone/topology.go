package main

import (
	"context"
	"fmt"

	"github.com/siltstone-data/siltstone/nats/bus"
)

type topologyCmd struct {
	DryRun bool `help:"Only show what would change."`
}

// Help shows an example.
func (topologyCmd) Help() string {
	return `Refuses a change that would lose messages. 'siltstone serve' and 'up' do the same at their start.

Example:
  siltstone topology --dry-run`
}

// Run shows the difference, and makes it so.
func (c *topologyCmd) Run(ctx context.Context, a *app) error {
	b, err := a.connect(ctx)
	if err != nil {
		return err
	}
	diff, err := b.Topology(ctx, !c.DryRun)
	if err != nil {
		return exit(exitRefused, err)
	}
	if a.json {
		return a.printJSON(append(bus.Diff{}, diff...)) // [] for nothing, not null
	}
	_, err = fmt.Fprint(a.stdout, diff)
	return err
}
