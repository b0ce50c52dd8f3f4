package bus

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// AwaitNotification waits for a store notification that contains part, and says
// how long after act returned it came: how a store's notifications are tried
// out. act is called once the bus listens.
func (b *Bus) AwaitNotification(ctx context.Context, part []byte, act func() error) (time.Duration, error) {
	c, err := b.js.OrderedConsumer(ctx, b.names.stream(Notifications), jetstream.OrderedConsumerConfig{
		DeliverPolicy:     jetstream.DeliverNewPolicy,
		InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return 0, fmt.Errorf("bus: notifications: %w", b.explain(b.names.stream(Notifications), err))
	}
	msgs, err := c.Messages()
	if err != nil {
		return 0, fmt.Errorf("bus: notifications: %w", err)
	}
	defer msgs.Stop()
	if err := act(); err != nil {
		return 0, err
	}
	acted := time.Now()
	for {
		m, err := msgs.Next(jetstream.NextContext(ctx))
		if err != nil {
			return 0, fmt.Errorf("bus: notifications: %w", err)
		}
		if bytes.Contains(m.Data(), part) {
			return max(0, time.Since(acted)), nil
		}
	}
}
