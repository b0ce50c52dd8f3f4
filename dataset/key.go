package dataset

import (
	"regexp"
	"strconv"
	"strings"
)

// Kind says what lies under a key.
type Kind string

// The kinds of object that ParseKey tells apart.
const (
	KindChunk    Kind = "chunk"    // live chunk; Run and Number are set
	KindRun      Kind = "run"      // run manifest; Run is set
	KindCommit   Kind = "commit"   // commit record
	KindHistory  Kind = "history"  // earlier commit record; Number is its generation
	KindBlock    Kind = "block"    // merged block with a number
	KindLegacy   Kind = "legacy"   // merged.parquet of older tools, without a number
	KindDigest   Kind = "digest"   // digest file with a number
	KindRejected Kind = "rejected" // lines that were not merged; File is the chunk's name
	KindIndex    Kind = "index"    // index of a block; Number is the block's
	KindMeta     Kind = "meta"     // summary of a batch's indexes
	// KindOldChunk is a live chunk of a layer of older tools, rows of many
	// batches: Batch has no batch.
	KindOldChunk Kind = "oldchunk"
	KindUnknown  Kind = "" // not ours, or not of a batch
)

// Key is a parsed object key.
type Key struct {
	Kind   Kind
	Batch  BatchID
	Run    Run
	Number int
	File   string // last part of the key
}

// A number is written in one way only: with five digits, or more where it needs
// them. A second spelling would be a second object under one number.
var (
	chunkName   = regexp.MustCompile(`^([0-9a-f]{6})_chunk_([0-9]{5}|[1-9][0-9]{5,8})\.jsonl$`)
	runName     = regexp.MustCompile(`^([0-9a-f]{6})\.manifest\.json$`)
	blockName   = regexp.MustCompile(`^merged_([0-9]{5}|[1-9][0-9]{5,8})\.(?:jsonl\.gz|parquet)$`)
	digestName  = regexp.MustCompile(`^([0-9]{5}|[1-9][0-9]{5,8})\.bin$`)
	historyName = regexp.MustCompile(`^([0-9]{8}|[1-9][0-9]{8,14})\.yaml$`)
	indexName   = regexp.MustCompile(`^([0-9]{5}|[1-9][0-9]{5,8})\.parquet$`)
)

// ParseKey tells what a key (relative to the prefix) names. A key whose names
// break a rule, or that has no place in the layout, is KindUnknown.
func ParseKey(key string) Key {
	parts := strings.Split(key, "/")
	for _, p := range parts {
		if p == "" {
			return Key{}
		}
	}
	k := Key{Batch: BatchID{Dataset: parts[0]}, File: parts[len(parts)-1]}
	rest := parts[1:]
	live := true
	merged := true
	if len(rest) >= 3 && rest[0] == annotationsDir {
		k.Batch.Annotator = rest[1]
		rest = rest[2:]
		live = rest[0] == ".temp"
		merged = !live
		if live {
			rest = rest[1:]
		}
	}
	switch {
	case k.Batch.Annotator != "" && live && len(rest) == 1:
		k.parseOldChunk(rest[0])
	case merged && len(rest) >= 2 && rest[0] == "_index":
		k.parseIndex(rest[1:])
	case len(rest) == 2:
		k.Batch.Batch = rest[0]
		k.parseFile(rest[1], live, merged)
	case len(rest) == 3 && merged:
		k.Batch.Batch = rest[0]
		k.parseSub(rest[1], rest[2])
	}
	check := k.Batch.Check
	if k.Kind == KindOldChunk {
		check = k.Batch.checkLayer
	}
	if k.Kind == KindUnknown || check() != nil {
		return Key{}
	}
	return k
}

func (k *Key) parseFile(name string, live, merged bool) {
	if m := chunkName.FindStringSubmatch(name); m != nil && live {
		k.Kind, k.Run, k.Number = KindChunk, Run(m[1]), atoi(m[2])
	} else if m := runName.FindStringSubmatch(name); m != nil && live {
		k.Kind, k.Run = KindRun, Run(m[1])
	} else if !merged {
		return
	} else if m := blockName.FindStringSubmatch(name); m != nil {
		k.Kind, k.Number = KindBlock, atoi(m[1])
	} else if name == "merged.parquet" {
		k.Kind = KindLegacy
	} else if name == "manifest.yaml" {
		k.Kind = KindCommit
	}
}

func (k *Key) parseSub(dir, name string) {
	switch dir {
	case "_history":
		k.number(KindHistory, historyName, name)
	case "_digests":
		k.number(KindDigest, digestName, name)
	case "_rejected":
		if m := chunkName.FindStringSubmatch(name); m != nil {
			k.Kind, k.Run, k.Number = KindRejected, Run(m[1]), atoi(m[2])
		}
	}
}

func (k *Key) parseIndex(rest []string) {
	if len(rest) == 1 {
		if batch, ok := strings.CutSuffix(rest[0], ".meta.json"); ok {
			k.Kind, k.Batch.Batch = KindMeta, batch
		}
		return
	}
	if len(rest) == 2 {
		k.Batch.Batch = rest[0]
		k.number(KindIndex, indexName, rest[1])
	}
}

func (k *Key) number(kind Kind, re *regexp.Regexp, name string) {
	if m := re.FindStringSubmatch(name); m != nil {
		k.Kind, k.Number = kind, atoi(m[1])
	}
}

// atoi reads digits that a pattern has already bounded.
func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
