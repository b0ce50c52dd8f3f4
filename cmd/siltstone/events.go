package main

import (
	"context"
	"errors"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
)

type eventsCmd struct {
	Dataset string        `arg:"" optional:"" help:"Only events of this dataset."`
	Since   time.Duration `help:"How far back to begin." default:"1h"`
	Follow  bool          `short:"f" help:"Stay and print what comes."`
}

// Help shows an example.
func (eventsCmd) Help() string {
	return `Each line is one event with its position in the stream.

Example:
  siltstone events jargon-file --since 10m --follow`
}

// eventLine is an event with where it stands.
type eventLine struct {
	Position string `json:"position"`
	dataset.Event
}

// Run prints events until there are no more, or until stopped.
func (c *eventsCmd) Run(ctx context.Context, a *app) error {
	if c.Dataset != "" {
		if err := dataset.CheckDataset(c.Dataset); err != nil {
			return exit(exitUsage, err)
		}
	}
	b, err := a.connect(ctx)
	if err != nil {
		return err
	}
	for t, err := range b.Tail(ctx, bus.TailFrom{Since: time.Now().Add(-c.Since)}, c.Follow) {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.Dataset != "" && t.Event.Dataset != c.Dataset {
			continue
		}
		if err := a.printJSON(eventLine{t.Position.String(), t.Event}); err != nil {
			return err
		}
	}
	return nil
}
