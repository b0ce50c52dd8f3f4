package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/producers"
)

// demoAnnotator is the layer that the demo lays beside its rows.
const demoAnnotator = "shape"

// annotateDemo annotates the demo's rows, and those that are put into its dataset
// while it runs.
func annotateDemo(ctx context.Context, a *app) error {
	_, err := producers.Annotate(context.WithoutCancel(ctx), a.store, a.bus, siltstone.NewLocker(a.store, a.log), a.log,
		demoBatch.Dataset, demoAnnotator, shape,
		producers.Follow(a.bus), producers.DrainWhen(ctx), producers.Columns("text"),
		// An `up` that was killed leaves its lease behind; the next one waits for it.
		producers.LeaseTTL(10*time.Second), producers.LeaseWait(time.Minute))
	if errors.Is(err, producers.ErrLeaseHeld) || errors.Is(err, producers.ErrLeaseLost) {
		a.log.Warn("somebody else annotates the demo", "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("annotate the demo: %w", err)
	}
	return nil
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?]["’”)\]]*(\s|$)`)
	reference   = regexp.MustCompile(`\{[^{}]+\}`)
)

// shape counts the words, sentences and cross-references of a text.
func shape(_ context.Context, row dataset.Row) (dataset.Annotation, error) {
	var entry struct{ Text string }
	if err := json.Unmarshal(row.Raw, &entry); err != nil {
		return dataset.Annotation{}, err
	}
	return dataset.Annotation{Data: map[string]any{
		"words":      len(strings.Fields(entry.Text)),
		"sentences":  len(sentenceEnd.FindAllString(entry.Text, -1)),
		"references": len(reference.FindAllString(entry.Text, -1)),
	}}, nil
}
