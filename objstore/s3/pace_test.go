package s3_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siltstone-data/siltstone/objstore/s3"
)

// spread sends requests from many goroutines and gives the time that they took.
func spread(t *testing.T, p *s3.Pace, requests int) time.Duration {
	t.Helper()
	start := time.Now()
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() {
			if _, err := s3.Wait(p, t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func TestAPaceSlowsAllGoroutinesAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := s3.NewPace()
		if d := spread(t, p, 100); d != 0 {
			t.Errorf("100 requests of a store that is well took %v", d)
		}
		burst := time.Now()
		for range 50 {
			s3.Refused(p, burst)
		}
		one := spread(t, p, 100)
		if one < 100*time.Millisecond || one > 400*time.Millisecond {
			t.Errorf("after one burst of refusals 100 requests took %v", one)
		}
		for range 20 {
			started, err := s3.Wait(p, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s3.Refused(p, started)
		}
		if d := spread(t, p, 100); d < 2*time.Second || d > 8*time.Second {
			t.Errorf("at the slowest 100 requests took %v", d)
		}
		for range 100 {
			s3.Served(p)
		}
		if d := spread(t, p, 100); d != 0 {
			t.Errorf("after 100 successes 100 requests took %v", d)
		}
	})
}

func TestWaitingForASlotEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := s3.NewPace()
		s3.Refused(p, time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var err error
		for err == nil {
			_, err = s3.Wait(p, ctx)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
