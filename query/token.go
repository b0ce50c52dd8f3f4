package query

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/siltstone-data/siltstone/dataset"
)

// token is what a page's cursor says: where the next page starts, and which way
// it goes. It names a row and no position, so that it stays right while rows
// arrive and batches are merged, and in the next process.
type token struct {
	Version int    `json:"v"`
	Dataset string `json:"d"`           // hash of the dataset's name
	Desc    bool   `json:"o,omitempty"` // order of the rows
	Back    bool   `json:"b,omitempty"` // the page ends there
	With    bool   `json:"w,omitempty"` // the row itself belongs to the page
	ID      string `json:"i"`
	Batch   string `json:"t"`
}

const (
	tokenVersion = 1
	maxToken     = 4096
)

func hashOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:6])
}

func (t token) String() string {
	raw, err := json.Marshal(t)
	if err != nil {
		return "" // strings and booleans always encode
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// parseToken reads a cursor that a page of this dataset and order gave.
func parseToken(s, name string, desc bool) (token, error) {
	var t token
	if len(s) > maxToken {
		return t, fmt.Errorf("%w: it is %d bytes long", ErrCursor, len(s))
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	switch {
	case err != nil || t.String() != s:
		return token{}, fmt.Errorf("%w: no page gave it", ErrCursor)
	case t.Version != tokenVersion:
		return token{}, fmt.Errorf("%w: it is of version %d; start from the first page", ErrCursor, t.Version)
	case t.Dataset != hashOf(name):
		return token{}, fmt.Errorf("%w: it belongs to another dataset", ErrCursor)
	case t.Desc != desc:
		return token{}, fmt.Errorf("%w: it belongs to pages in the other order", ErrCursor)
	case t.ID == "" || len(t.ID) > dataset.MaxIDBytes || dataset.CheckBatch(t.Batch) != nil:
		return token{}, fmt.Errorf("%w: it names no row", ErrCursor)
	}
	return t, nil
}

// spot is where the walk to the page starts.
func (t token) spot() spot { return spot{Cursor: Cursor{t.ID, t.Batch}, with: t.With} }
