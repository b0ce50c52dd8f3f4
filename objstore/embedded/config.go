package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
)

// Config holds the settings of a Server.
type Config struct {
	// Dir is the folder that is served; it is made where it is missing. It must
	// be absolute, and so must be every other path that the process uses: while
	// the server runs, Dir is the working directory of the process, because
	// versitygw works with paths relative to it.
	Dir string
	// Listen is the address of the endpoint; 127.0.0.1:0, a free port, when
	// empty.
	Listen string
	Bucket string // made by Open where it is missing
	Region string // us-east-1 when empty

	AccessKey string
	SecretKey string

	// Notify, if set, is told of every change before the change is answered, in
	// Amazon's JSON for notifications. When it fails, so does the request, with
	// the change made: the client tries again, and is told of again.
	Notify func(ctx context.Context, payload []byte) error
}

func (c *Config) defaults() {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	c.Region = cmp.Or(c.Region, "us-east-1")
}

// Validate names the field that makes a configuration unusable.
func (c Config) Validate() error {
	switch {
	case !filepath.IsAbs(c.Dir):
		return fmt.Errorf("embedded store: Dir %q is not absolute", c.Dir)
	case c.Bucket == "":
		return errors.New("embedded store: Bucket is empty")
	case c.AccessKey == "" || c.SecretKey == "":
		return errors.New("embedded store: AccessKey or SecretKey is empty")
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("embedded store: Listen: %w", err)
	}
	return nil
}
