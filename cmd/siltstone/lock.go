package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"text/tabwriter"
	"time"

	"github.com/siltstone-data/siltstone/lockd"
)

// lockCmd looks at leases and takes them from whoever has them.
type lockCmd struct {
	Ls      lockLsCmd      `cmd:"" help:"List the leases that somebody has."`
	Show    lockShowCmd    `cmd:"" help:"Show one lease, and who took it by force."`
	Release lockReleaseCmd `cmd:"" help:"Take a lease from its holder."`
}

type lockLsCmd struct {
	Prefix string `arg:"" optional:"" help:"Only names that start so."`
	All    bool   `help:"Also those that nobody has."`
}

// Help shows an example.
func (lockLsCmd) Help() string {
	return `Asks lockd where LOCKD_URL is set, and else the store. Times are the store's.

Example:
  siltstone lock ls jargon-file/`
}

// Run lists leases as they come.
func (c *lockLsCmd) Run(ctx context.Context, a *app) error {
	leases, err := a.leases()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	n := 0
	for st, err := range leases.List(ctx, c.Prefix) {
		switch {
		case err != nil:
			return errors.Join(w.Flush(), err)
		case st.State == lockd.Free && !c.All:
			continue
		case a.json:
			if err := a.printJSON(st); err != nil {
				return err
			}
			continue
		}
		if n%pageOfLeases == 0 {
			fmt.Fprintln(w, "NAME\tSTATE\tOWNER\tTOKEN\tENDS\tWAITING")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%d\n", oneLine(st.Name), st.State, oneLine(st.Owner), st.Token, ends(st), st.Waiting)
		if n++; n%pageOfLeases == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// pageOfLeases is how many lines are put into columns at once.
const pageOfLeases = 1000

// oneLine shows a text that anybody may have written.
func oneLine(s string) string {
	q := fmt.Sprintf("%q", s)
	return q[1 : len(q)-1]
}

// ends says when a lease ends, as seen from now.
func ends(st lockd.Status) string {
	if st.ExpiresAt == nil {
		return "-"
	}
	left := st.Left().Round(time.Second)
	if left <= 0 {
		return fmt.Sprintf("%s ago", -left)
	}
	return fmt.Sprintf("in %s", left)
}

type lockShowCmd struct {
	Name string `arg:"" help:"Name of the lease: _locks/NAME, or D/annotations/A/.temp/.lock of an annotator."`
}

// Help shows an example.
func (lockShowCmd) Help() string {
	return `Example:
  siltstone lock show jargon-file/annotations/length/.temp/.lock`
}

// Run shows one lease.
func (c *lockShowCmd) Run(ctx context.Context, a *app) error {
	leases, err := a.leases()
	if err != nil {
		return err
	}
	st, err := leases.Show(ctx, c.Name)
	if err != nil {
		return refusedName(err)
	}
	if a.json {
		return a.printJSON(st)
	}
	describeLease(a, st)
	return nil
}

func describeLease(a *app, st lockd.Status) {
	fmt.Fprintf(a.stdout, "%s is %s\n", oneLine(st.Name), st.State)
	whose := "owner"
	if st.State == lockd.Free {
		whose = "last owner"
	}
	fmt.Fprintf(a.stdout, "  %-10s  %s (token %d)\n", whose, oneLine(st.Owner), st.Token)
	if st.AcquiredAt != nil {
		fmt.Fprintf(a.stdout, "  %-10s  %s\n", "since", st.AcquiredAt.Format(time.RFC3339))
	}
	fmt.Fprintf(a.stdout, "  %-10s  %s\n", "written", st.RenewedAt.Format(time.RFC3339))
	if st.ExpiresAt != nil {
		fmt.Fprintf(a.stdout, "  %-10s  %s (%s)\n", "ends", st.ExpiresAt.Format(time.RFC3339), ends(st))
	}
	if st.Waiting > 0 {
		fmt.Fprintf(a.stdout, "  %-10s  %d\n", "waiting", st.Waiting)
	}
	if len(st.Meta) > 0 {
		fmt.Fprintf(a.stdout, "  %-10s  %s\n", "meta", st.Meta)
	}
	for _, f := range st.Forced {
		fmt.Fprintf(a.stdout, "  %-10s  %s: %s took it from %s (token %d)\n", "by force", f.At.Format(time.RFC3339), oneLine(f.By), oneLine(f.Owner), f.Token)
	}
	if st.ForcedMore > 0 {
		fmt.Fprintf(a.stdout, "  %-10s  and %d times before\n", "by force", st.ForcedMore)
	}
}

type lockReleaseCmd struct {
	Name  string `arg:"" help:"Name of the lease."`
	Force bool   `help:"Take it from whoever has it. Without this nothing is done: a lease is released by its holder."`
	By    string `help:"Who does it, for the record; USER@HOST when left out." placeholder:"WHO"`
}

// Help shows an example.
func (lockReleaseCmd) Help() string {
	return `The holder is not told: it finds out when it renews, and may work on until then. Who took what from
whom, and when, is noted in the lease and in the log.

Example:
  siltstone lock release jargon-file/annotations/length/.temp/.lock --force`
}

// Run takes a lease from its holder.
func (c *lockReleaseCmd) Run(ctx context.Context, a *app) error {
	if !c.Force {
		return exit(exitUsage, fmt.Errorf("a lease is released by its holder, or ends by itself; --force takes %s from whoever has it", c.Name))
	}
	leases, err := a.leases()
	if err != nil {
		return err
	}
	if c.By == "" {
		c.By = whoami()
	}
	st, err := leases.ForceRelease(ctx, c.Name, c.By)
	switch {
	case err != nil:
		return refusedName(err)
	case a.json:
		return a.printJSON(st)
	}
	if n := len(st.Forced); n > 0 && st.Forced[n-1].Token == st.Token {
		f := st.Forced[n-1]
		fmt.Fprintf(a.stdout, "%s is free: %s took it from %s (token %d) at %s\n", oneLine(st.Name), oneLine(f.By), oneLine(f.Owner), f.Token, f.At.Format(time.RFC3339))
		return nil
	}
	fmt.Fprintf(a.stdout, "%s was free already: %s (token %d) released it\n", oneLine(st.Name), oneLine(st.Owner), st.Token)
	return nil
}

// whoami is who runs this, as far as the system tells.
func whoami() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// refusedName makes what is no name of a lease a wrong usage.
func refusedName(err error) error {
	if errors.Is(err, lockd.ErrName) || errors.Is(err, lockd.ErrInvalid) {
		return exit(exitUsage, err)
	}
	return err
}
