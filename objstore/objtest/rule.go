package objtest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/siltstone-data/siltstone/objstore"
)

// Verbs of the calls that rules and schedules speak of.
const (
	Get    = "get"
	Put    = "put"
	Upload = "upload"
	List   = "list"
	Dirs   = "dirs"
	Delete = "delete"
)

// Rule plans a fault: at which calls, and what happens there. It is made by On,
// narrowed by Key, Nth and Times, and completed by one of the other methods:
//
//	objtest.On(objtest.Put).Key("d/b/*").Nth(2).LoseAnswer()
//
// The string of a rule reads like that too.
type Rule struct {
	verbs   []string
	pattern string
	key     *regexp.Regexp
	from    int // first matching call that it befalls, from 1
	times   int // and how many from there on; 0 means all

	what   string // the fault, in words
	before func() error
	after  func(error) error
	cut    int64 // bytes of a body, or names of a list; -1 means whole
	late   int   // calls until a put takes effect; 0 means at once

	seen, fired int
}

// On plans a fault at calls of these verbs, of every verb when none is given.
func On(verbs ...string) *Rule { return &Rule{verbs: verbs, from: 1, cut: -1} }

// Key narrows the rule to keys (prefixes, for lists) that match a pattern, in
// which * stands for any text, slashes too.
func (r *Rule) Key(pattern string) *Rule {
	r.pattern = pattern
	r.key = regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
	return r
}

// Nth narrows the rule to the n-th call, from 1, that it would befall.
func (r *Rule) Nth(n int) *Rule { r.from, r.times = n, 1; return r }

// Times narrows the rule to n calls, the first ones or those from Nth on.
func (r *Rule) Times(n int) *Rule { r.times = n; return r }

// Fail lets the call fail with err, without an effect.
func (r *Rule) Fail(err error) *Rule {
	r.what = fmt.Sprintf("fails with %q", err)
	r.before = func() error { return err }
	return r
}

// FailAfter lets the call have its effect and then fail with err.
func (r *Rule) FailAfter(err error) *Rule {
	r.what = fmt.Sprintf("takes effect and fails with %q", err)
	r.after = func(error) error { return err }
	return r
}

// LoseAnswer lets a write have its effect and return ErrUnknown.
func (r *Rule) LoseAnswer() *Rule {
	r.FailAfter(objstore.ErrUnknown)
	r.what = "takes effect, the answer is lost"
	return r
}

// Late lets a put or an upload return ErrUnknown and have its effect when that
// many more calls were made, or at Flush.
func (r *Rule) Late(calls int) *Rule {
	r.what = fmt.Sprintf("takes effect %d calls later, the answer is lost", calls)
	r.late = max(calls, 1)
	return r
}

// Cut ends the body of a get after n bytes, or a list after n names, with
// io.ErrUnexpectedEOF.
func (r *Rule) Cut(n int64) *Rule {
	r.what = fmt.Sprintf("is cut after %d", n)
	r.cut = n
	return r
}

// Before runs fn before the call, which then goes on: what somebody else does in
// that very moment.
func (r *Rule) Before(fn func()) *Rule {
	r.what = "goes on after something else was done"
	r.before = func() error { fn(); return nil }
	return r
}

// After runs fn when the call has had its effect, before it returns.
func (r *Rule) After(fn func()) *Rule {
	r.what = "takes effect, and something else is done before it returns"
	r.after = func(err error) error { fn(); return err }
	return r
}

// String is the rule in words.
func (r *Rule) String() string {
	verbs := strings.Join(r.verbs, "|")
	if verbs == "" {
		verbs = "any call"
	}
	which := ""
	switch {
	case r.times == 1:
		which = fmt.Sprintf(", call %d,", r.from)
	case r.times > 1:
		which = fmt.Sprintf(", calls %d to %d,", r.from, r.from+r.times-1)
	}
	pattern := r.pattern
	if r.key == nil {
		pattern = "*"
	}
	return fmt.Sprintf("%s %s%s %s", verbs, pattern, which, r.what)
}

// meets counts a call and tells whether the rule befalls it.
func (r *Rule) meets(verb, key string) bool {
	ok := len(r.verbs) == 0
	for _, v := range r.verbs {
		ok = ok || v == verb
	}
	if !ok || r.key != nil && !r.key.MatchString(key) {
		return false
	}
	r.seen++
	if r.seen < r.from || r.times > 0 && r.seen >= r.from+r.times {
		return false
	}
	r.fired++
	return true
}
