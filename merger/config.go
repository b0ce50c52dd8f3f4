package merger

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"time"
)

// Config holds the settings of an Engine; the zero value is usable.
type Config struct {
	// WorkDir is where sorts spill and blocks are built, each merge in a
	// folder of its own that it removes. The system's folder when empty.
	WorkDir string
	// Memory is what all sorts of one merge may hold together; 128 MiB when 0.
	Memory int64
	// DigestCache is what copies of digest files may take in WorkDir, 16 bytes
	// for each row of a batch that is deduplicated; 1 GiB when 0. A larger file is
	// read from the store by every merge. A copy has no name there: it goes with
	// the process.
	DigestCache int64
	// DigestGrowth is by how much at least a digest file grows when it is joined
	// with others; 8 when 0. With less the files are fewer, and written more often.
	DigestGrowth int64
	// Level is the gzip level of blocks, 1 to 9; 1 when 0: level 6 takes twice
	// the time for a twelfth less.
	Level int
	// Concurrency is how many requests to the store a merge has under way; 32
	// when 0. With 1 a merge starts no goroutine and its calls have one order.
	Concurrency int
	// BlockRows and BlockBytes (of raw rows) bound a block; 50,000 and 256 MiB
	// when 0. A single row is never too large.
	BlockRows  int64
	BlockBytes int64
	// MaxJSONLBytes is how many bytes the blocks of a dataset may have together
	// for its new blocks to be gzip files of lines: past that they are parquet
	// files, and those of a batch that has some stay so. No bound when 0.
	MaxJSONLBytes int64
	// DatasetBytes tells, at least about, how many bytes the blocks of a dataset
	// have together; those of the batch alone count when it is nil.
	DatasetBytes func(ctx context.Context, dataset string) (int64, error)
	// Grace is how old a garbage entry is before a commit asks whether its
	// file is gone; 10 min when 0.
	Grace time.Duration

	By     string           // who commits; host and process when empty
	Now    func() time.Time // time.Now when nil
	Random io.Reader        // of commit ids; crypto/rand when nil

	// Progress, if set, is told how far a merge is, now and then.
	Progress func(Progress)
}

// Progress says how far a merge is.
type Progress struct {
	Phase string // "read", "decide", "write"
	Done  int64  // chunks in "read", rows otherwise
	Total int64
}

// The limits that the format sets.
const (
	maxBlockRows  = 50_000
	maxBlockBytes = 256 << 20
)

func (c Config) withDefaults() Config {
	if c.WorkDir == "" {
		c.WorkDir = os.TempDir()
	}
	if c.Memory == 0 {
		c.Memory = 128 << 20
	}
	if c.DigestCache == 0 {
		c.DigestCache = 1 << 30
	}
	if c.DigestGrowth == 0 {
		c.DigestGrowth = digestGrowth
	}
	if c.Level == 0 {
		c.Level = 1
	}
	if c.Concurrency == 0 {
		c.Concurrency = 32
	}
	if c.BlockRows == 0 {
		c.BlockRows = maxBlockRows
	}
	if c.BlockBytes == 0 {
		c.BlockBytes = maxBlockBytes
	}
	if c.Grace == 0 {
		c.Grace = 10 * time.Minute
	}
	if c.By == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.By = fmt.Sprintf("merger@%s/%d", host, os.Getpid())
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	return c
}

// Validate reports the first setting that makes no sense, by name.
func (c Config) Validate() error {
	switch {
	case c.Memory < 0:
		return fmt.Errorf("merger: Memory is %d", c.Memory)
	case c.DigestCache < 0:
		return fmt.Errorf("merger: DigestCache is %d", c.DigestCache)
	case c.DigestGrowth < 0 || c.DigestGrowth == 1:
		return fmt.Errorf("merger: DigestGrowth is %d, a file that is joined has to grow", c.DigestGrowth)
	case c.Level < 0 || c.Level > 9:
		return fmt.Errorf("merger: Level is %d, gzip has 1 to 9", c.Level)
	case c.Concurrency < 0:
		return fmt.Errorf("merger: Concurrency is %d", c.Concurrency)
	case c.BlockRows < 0 || c.BlockRows > maxBlockRows:
		return fmt.Errorf("merger: BlockRows is %d, the format allows 1 to %d", c.BlockRows, maxBlockRows)
	case c.BlockBytes < 0:
		return fmt.Errorf("merger: BlockBytes is %d", c.BlockBytes)
	case c.MaxJSONLBytes < 0:
		return fmt.Errorf("merger: MaxJSONLBytes is %d", c.MaxJSONLBytes)
	case c.Grace < 0:
		return fmt.Errorf("merger: Grace is %s", c.Grace)
	}
	return nil
}
