package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Help shows an example.
func (versionCmd) Help() string {
	return `Example:
  siltstone version --json`
}

// Run prints the version that the build recorded.
func (versionCmd) Run(_ context.Context, a *app) error {
	version, revision := "(unknown)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	if a.json {
		return a.printJSON(map[string]string{"version": version, "revision": revision, "go": runtime.Version()})
	}
	_, err := fmt.Fprintf(a.stdout, "siltstone %s %s %s\n", version, revision, runtime.Version())
	return err
}
