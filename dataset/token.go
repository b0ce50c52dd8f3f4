package dataset

import (
	"errors"
	"fmt"
	"strings"
)

// MaxTokenBytes bounds an encoded name: NATS closes the connection of a client
// whose protocol line passes 4 KiB, and a subject carries up to three names.
const MaxTokenBytes = 1024

// ErrToken reports a text that is no encoded name.
var ErrToken = errors.New("bad token")

const upperHex = "0123456789ABCDEF"

// Token encodes a name as one NATS subject token, which is legal in a KV key
// too: bytes outside [A-Za-z0-9_-] become =XX. The empty name is "=".
func Token(name string) string {
	if name == "" {
		return "="
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if c := name[i]; tokenByte(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('=')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}

// ParseToken is the inverse of Token; it accepts only what Token gives.
func ParseToken(tok string) (string, error) {
	if tok == "=" {
		return "", nil
	}
	if tok == "" || len(tok) > MaxTokenBytes {
		return "", fmt.Errorf("%w: %d bytes", ErrToken, len(tok))
	}
	var b strings.Builder
	for i := 0; i < len(tok); i++ {
		c := tok[i]
		if c == '=' {
			if i+2 >= len(tok) {
				return "", fmt.Errorf("%w: %q ends in an escape", ErrToken, tok)
			}
			hi, lo := strings.IndexByte(upperHex, tok[i+1]), strings.IndexByte(upperHex, tok[i+2])
			if hi < 0 || lo < 0 || tokenByte(byte(hi<<4|lo)) {
				return "", fmt.Errorf("%w: %q has a bad escape", ErrToken, tok)
			}
			b.WriteByte(byte(hi<<4 | lo))
			i += 2
			continue
		}
		if !tokenByte(c) {
			return "", fmt.Errorf("%w: %q has a byte that needs an escape", ErrToken, tok)
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

func tokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// Tokens is the batch as subject tokens: D.B, or D.B.A for a layer.
func (b BatchID) Tokens() string {
	t := Token(b.Dataset) + "." + Token(b.Batch)
	if b.Annotator != "" {
		t += "." + Token(b.Annotator)
	}
	return t
}

// ParseTokens reads what Tokens gives.
func ParseTokens(s string) (BatchID, error) {
	parts := strings.Split(s, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return BatchID{}, fmt.Errorf("%w: %q does not name a batch", ErrToken, s)
	}
	var names [3]string
	for i, p := range parts {
		n, err := ParseToken(p)
		if err != nil {
			return BatchID{}, err
		}
		names[i] = n
	}
	b := BatchID{Dataset: names[0], Batch: names[1], Annotator: names[2]}
	return b, b.Check()
}
