package query

import (
	"errors"
	"fmt"
	"slices"
)

// ErrNotFound reports a name that nothing has.
var ErrNotFound = errors.New("not found")

// NotFoundError says which name was not found, and which existing one comes
// nearest. It is an ErrNotFound.
type NotFoundError struct {
	What    string // "dataset", "batch", "column"
	Name    string
	Nearest string // empty: nothing comes near
}

func (e *NotFoundError) Error() string {
	if e.Nearest == "" {
		return fmt.Sprintf("there is no %s %q", e.What, e.Name)
	}
	return fmt.Sprintf("there is no %s %q; did you mean %q?", e.What, e.Name, e.Nearest)
}

// Is makes the error an ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// Nearest is the name among names that a person may have meant by name, or "":
// at most a third of it may have to change.
func Nearest(name string, names []string) string {
	want := []rune(name)
	best, bestCost := "", max(1, len(want)/3)+1
	for _, n := range names {
		if have := []rune(n); len(have)-len(want) < bestCost && len(want)-len(have) < bestCost {
			if c := edits(want, have); c < bestCost {
				best, bestCost = n, c
			}
		}
	}
	return best
}

// edits counts the letters to insert, drop, replace or swap with their
// neighbour on the way from a to b.
func edits(a, b []rune) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		above := row
		row = make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before = above
	}
	return row[len(b)]
}

// except is names without name: what was not found is no suggestion.
func except(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}
