package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Topology compares the streams, buckets and durables on the server with what
// is wanted and, with apply, creates and updates them. The Diff tells what was
// different. When one asset differs in a way that loses data, nothing is
// changed and the error (ErrTopology) says which, and the way out.
func (b *Bus) Topology(ctx context.Context, apply bool) (Diff, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	want := desired(b.names, b.cfg.Replicas, b.t)
	var diff Diff
	var todo []func() error
	for _, s := range want.Streams {
		c, do, err := b.planStream(ctx, s)
		if err != nil {
			return diff, fmt.Errorf("bus: topology: %s: %w", streamAsset(s.Name), b.explain(s.Name, err))
		}
		if c != nil {
			diff, todo = append(diff, *c), append(todo, do)
		}
	}
	for _, d := range want.Durables {
		c, do, err := b.planDurable(ctx, d)
		if err != nil {
			return diff, fmt.Errorf("bus: topology: durable %s of stream %s: %w", d.Config.Durable, d.Stream, b.explain(d.Stream, err))
		}
		if c != nil {
			diff, todo = append(diff, *c), append(todo, do)
		}
	}
	if err := diff.Refused(); err != nil {
		return diff, fmt.Errorf("bus: %w", err)
	}
	if !apply {
		return diff, nil
	}
	for i, do := range todo {
		if diff[i].Action == ActionLeave {
			b.log.Warn("topology: left alone, a later version made it", keyStream, diff[i].Asset)
			continue
		}
		if err := do(); err != nil {
			return diff, fmt.Errorf("bus: %s %s: %w", diff[i].Action, diff[i].Asset, whyStream(err))
		}
	}
	return diff, nil
}

func (b *Bus) planStream(ctx context.Context, want jetstream.StreamConfig) (*Change, func() error, error) {
	s, err := b.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		create := want
		create.Replicas = max(create.Replicas, 1)
		return &Change{Action: ActionCreate, Asset: streamAsset(want.Name)}, func() error {
			_, err := b.js.CreateStream(ctx, create)
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				// Somebody made it in between; what it is shows at the next start.
				return nil
			}
			return err
		}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	info := s.CachedInfo()
	next, c := compareStream(info.Config, info.State, want)
	return c, func() error {
		_, err := b.js.UpdateStream(ctx, next)
		return err
	}, nil
}

func (b *Bus) planDurable(ctx context.Context, want Durable) (*Change, func() error, error) {
	have, err := b.js.Consumer(ctx, want.Stream, want.Config.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return &Change{Action: ActionCreate, Asset: "durable " + want.Config.Durable + " of stream " + want.Stream}, func() error {
			_, err := b.js.CreateOrUpdateConsumer(ctx, want.Stream, want.Config)
			return err
		}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	next, c := compareDurable(have.CachedInfo().Config, want)
	return c, func() error {
		// Never delete and create: acks of the old one would silently be void.
		_, err := b.js.CreateOrUpdateConsumer(ctx, want.Stream, next)
		return err
	}, nil
}

// whyStream explains the refusals of the server that people run into.
func whyStream(err error) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode {
	case 10047, 10028:
		return fmt.Errorf("the server has not that much JetStream storage to give: raise max_file_store or free disk space: %w", err)
	case 10065:
		return fmt.Errorf("another stream of this account already takes these subjects, find it with `nats stream ls --subject`: %w", err)
	case 10074, 10005:
		return fmt.Errorf("the cluster cannot place that many replicas: %w", err)
	}
	return err
}
