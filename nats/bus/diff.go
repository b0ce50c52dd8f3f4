package bus

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Action says what happens to an asset.
type Action string

// The actions of a Diff.
const (
	ActionCreate Action = "create" // it is missing
	ActionUpdate Action = "update" // an update brings it to what is wanted
	ActionRefuse Action = "refuse" // an update would lose data or is impossible
	ActionLeave  Action = "leave"  // a later version of siltstone made it
)

// Diff lists what differs between the server and what is wanted; empty means
// nothing. Its text is what `siltstone topology --dry-run` prints.
type Diff []Change

// Change is one asset that differs.
type Change struct {
	Action Action  `json:"action"`
	Asset  string  `json:"asset"` // "stream X", "bucket X" or "durable X of stream Y"
	Fields []Field `json:"fields,omitempty"`
}

// Field is one setting that differs.
type Field struct {
	Name string `json:"name"`
	Have string `json:"have"`
	Want string `json:"want"`
	Why  string `json:"why,omitempty"` // set where it is the reason to refuse
	Fix  string `json:"fix,omitempty"` // the way out
}

// String has one line for each asset and field.
func (d Diff) String() string {
	if len(d) == 0 {
		return "nothing to change\n"
	}
	var b strings.Builder
	for _, c := range d {
		fmt.Fprintf(&b, "%s %s\n", c.Action, c.Asset)
		for _, f := range c.Fields {
			fmt.Fprintf(&b, "    %s: %s -> %s\n", f.Name, f.Have, f.Want)
			if f.Why != "" {
				fmt.Fprintf(&b, "        %s; %s\n", f.Why, f.Fix)
			}
		}
	}
	return b.String()
}

// Refused is the error of the changes that are refused, or nil.
func (d Diff) Refused() error {
	var out []string
	for _, c := range d {
		for _, f := range c.Fields {
			if c.Action == ActionRefuse && f.Why != "" {
				out = append(out, fmt.Sprintf("%s: %s is %s, wanted %s: %s; %s", c.Asset, f.Name, f.Have, f.Want, f.Why, f.Fix))
			}
		}
	}
	if out == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrTopology, strings.Join(out, "\n"))
}

func (c *Change) field(name string, have, want any) *Field {
	c.Fields = append(c.Fields, Field{Name: name, Have: show(have), Want: show(want)})
	return &c.Fields[len(c.Fields)-1]
}

func (c *Change) refuse(name string, have, want any, why, fix string) {
	f := c.field(name, have, want)
	f.Why, f.Fix = why, fix
	c.Action = ActionRefuse
}

func show(v any) string {
	switch v := v.(type) {
	case time.Duration:
		if v == 0 {
			return "none"
		}
		return v.String()
	case int64:
		if v <= 0 {
			return "unlimited"
		}
		return strconv.FormatInt(v, 10)
	case []string:
		return "[" + strings.Join(v, " ") + "]"
	}
	return strings.ToLower(fmt.Sprint(v))
}

func streamAsset(name string) string {
	if b, ok := strings.CutPrefix(name, "KV_"); ok {
		return "bucket " + b
	}
	return "stream " + name
}

// compareStream gives the configuration that an update would send and what
// changes by it; nil when nothing does.
func compareStream(have jetstream.StreamConfig, state jetstream.StreamState, want jetstream.StreamConfig) (jetstream.StreamConfig, *Change) {
	c := &Change{Action: ActionUpdate, Asset: streamAsset(want.Name)}
	if madeLater(have.Metadata) {
		c.Action = ActionLeave
		c.field("topology", have.Metadata[metaVersion], TopologyVersion)
		return have, c
	}
	aside := fmt.Sprintf("keep it and use another scope, or copy out what you need and remove it with `nats stream rm %s`", want.Name)
	next := have
	fixed := func(name string, have, want any) {
		if have != want {
			c.refuse(name, have, want, "this cannot be changed without losing the stream's messages", aside)
		}
	}
	fixed("storage", have.Storage, want.Storage)
	fixed("retention", have.Retention, want.Retention)
	fixed("mirror", have.Mirror != nil, false)
	fixed("sources", len(have.Sources) > 0, false)
	fixed("sealed", have.Sealed, false)
	fixed("counter", have.AllowMsgCounter, false)
	fixed("persist mode", have.PersistMode, want.PersistMode)
	if have.SubjectTransform != nil {
		c.refuse("subject transform", have.SubjectTransform.Source+" -> "+have.SubjectTransform.Destination, "none",
			"messages would be stored under other subjects than those that are read", aside)
	}
	compareSubjects(c, have, want)
	next.Subjects = want.Subjects
	compareLimits(c, have, state, want)
	next.MaxAge, next.MaxMsgs, next.MaxBytes, next.MaxMsgsPerSubject = want.MaxAge, want.MaxMsgs, want.MaxBytes, want.MaxMsgsPerSubject
	sticky := func(name string, have, want bool, into *bool) {
		if have && !want {
			c.refuse(name, have, want, "the server cannot turn this off again", aside)
		} else if have != want {
			c.field(name, have, want)
		}
		*into = want
	}
	sticky("message ttl", have.AllowMsgTTL, want.AllowMsgTTL, &next.AllowMsgTTL)
	sticky("schedules", have.AllowMsgSchedules, want.AllowMsgSchedules, &next.AllowMsgSchedules)
	sticky("deny delete", have.DenyDelete, want.DenyDelete, &next.DenyDelete)
	sticky("deny purge", have.DenyPurge, want.DenyPurge, &next.DenyPurge)
	compareRest(c, have, want, &next)
	if len(c.Fields) == 0 {
		return next, nil
	}
	next.Metadata = mergeMeta(have.Metadata, want.Metadata)
	return next, c
}

func compareSubjects(c *Change, have, want jetstream.StreamConfig) {
	var gone []string
	for _, s := range have.Subjects {
		if !slices.Contains(want.Subjects, s) {
			gone = append(gone, s)
		}
	}
	h, w := slices.Sorted(slices.Values(have.Subjects)), slices.Sorted(slices.Values(want.Subjects))
	switch {
	case gone != nil:
		c.refuse("subjects", h, w, fmt.Sprintf("what is published to %s would no longer be stored", strings.Join(gone, ", ")),
			fmt.Sprintf("stop what uses them, then take them off with `nats stream edit %s`", want.Name))
	case !slices.Equal(h, w):
		c.field("subjects", h, w)
	}
}

// compareLimits refuses a limit that would drop what is stored now.
func compareLimits(c *Change, have jetstream.StreamConfig, s jetstream.StreamState, want jetstream.StreamConfig) {
	fix := fmt.Sprintf("let the stream shrink or copy it out, then set it with `nats stream edit %s`", want.Name)
	limit := func(name string, have, want int64, stored int64, unit string) {
		have, want = max(have, 0), max(want, 0)
		if have == want {
			return
		}
		lower := want > 0 && (have == 0 || want < have)
		if lower && stored > want {
			c.refuse(name, have, want, fmt.Sprintf("the stream holds %d %s, the lower limit would drop some", stored, unit), fix)
			return
		}
		c.field(name, have, want)
	}
	limit("max messages", have.MaxMsgs, want.MaxMsgs, int64(s.Msgs), "messages")
	limit("max bytes", have.MaxBytes, want.MaxBytes, int64(s.Bytes), "bytes")
	// How many messages the fullest subject holds is not known: two messages in
	// the stream may both be of one.
	limit("max messages per subject", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject, int64(s.Msgs), "messages")
	if have.MaxAge != want.MaxAge {
		lower := want.MaxAge > 0 && (have.MaxAge == 0 || want.MaxAge < have.MaxAge)
		if age := time.Since(s.FirstTime); lower && s.Msgs > 0 && age > want.MaxAge {
			c.refuse("max age", have.MaxAge, want.MaxAge,
				fmt.Sprintf("the oldest message is %s old, the lower limit would drop it", age.Round(time.Second)), fix)
		} else {
			c.field("max age", have.MaxAge, want.MaxAge)
		}
	}
}

// compareRest settles what an update can change both ways. What is not ours to
// say (placement, compression, republishing, description) stays as it is.
func compareRest(c *Change, have, want jetstream.StreamConfig, next *jetstream.StreamConfig) {
	set := func(name string, have, want any, apply func()) {
		if !reflect.DeepEqual(have, want) {
			c.field(name, have, want)
			apply()
		}
	}
	set("discard", have.Discard, want.Discard, func() { next.Discard = want.Discard })
	set("duplicate window", have.Duplicates, want.Duplicates, func() { next.Duplicates = want.Duplicates })
	set("max message size", int64(max(have.MaxMsgSize, 0)), int64(max(want.MaxMsgSize, 0)), func() { next.MaxMsgSize = want.MaxMsgSize })
	set("direct reads", have.AllowDirect, want.AllowDirect, func() { next.AllowDirect = want.AllowDirect })
	set("rollup", have.AllowRollup, want.AllowRollup, func() { next.AllowRollup = want.AllowRollup })
	set("marker life", have.SubjectDeleteMarkerTTL, want.SubjectDeleteMarkerTTL, func() { next.SubjectDeleteMarkerTTL = want.SubjectDeleteMarkerTTL })
	set("no ack", have.NoAck, false, func() { next.NoAck = false })
	if want.Replicas > 0 {
		set("replicas", have.Replicas, want.Replicas, func() { next.Replicas = want.Replicas })
	}
	compareMeta(c, have.Metadata, want.Metadata)
}

func compareMeta(c *Change, have, want map[string]string) {
	for _, k := range []string{metaApp, metaVersion} {
		if have[k] != want[k] {
			c.field("metadata "+k, have[k], want[k])
		}
	}
}

// mergeMeta keeps the keys of others but not those that the server sets.
func mergeMeta(have, want map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range have {
		if !strings.HasPrefix(k, "_nats.") {
			out[k] = v
		}
	}
	for k, v := range want {
		out[k] = v
	}
	return out
}

func madeLater(meta map[string]string) bool {
	v, err := strconv.Atoi(meta[metaVersion])
	return err == nil && v > TopologyVersion
}

// compareDurable is compareStream for a durable.
func compareDurable(have jetstream.ConsumerConfig, d Durable) (jetstream.ConsumerConfig, *Change) {
	want := d.Config
	c := &Change{Action: ActionUpdate, Asset: "durable " + want.Durable + " of stream " + d.Stream}
	if madeLater(have.Metadata) {
		c.Action = ActionLeave
		c.field("topology", have.Metadata[metaVersion], TopologyVersion)
		return have, c
	}
	aside := fmt.Sprintf("remove it with `nats consumer rm %s %s` if that is meant: handlers may see everything again", d.Stream, want.Durable)
	fixed := func(name string, have, want any) {
		if have != want {
			c.refuse(name, have, want, "the server cannot change this, and a new durable would start from the beginning", aside)
		}
	}
	fixed("deliver policy", have.DeliverPolicy, want.DeliverPolicy)
	fixed("ack policy", have.AckPolicy, want.AckPolicy)
	fixed("push subject", have.DeliverSubject, "")
	next := have
	set := func(name string, have, want any, apply func()) {
		if !reflect.DeepEqual(have, want) {
			c.field(name, have, want)
			apply()
		}
	}
	set("filter", filtersOf(have), filtersOf(want), func() { next.FilterSubject, next.FilterSubjects = want.FilterSubject, want.FilterSubjects })
	set("ack wait", have.AckWait, want.AckWait, func() { next.AckWait = want.AckWait })
	set("max deliveries", int64(have.MaxDeliver), int64(want.MaxDeliver), func() { next.MaxDeliver = want.MaxDeliver })
	set("max ack pending", int64(have.MaxAckPending), int64(want.MaxAckPending), func() { next.MaxAckPending = want.MaxAckPending })
	set("max waiting", int64(have.MaxWaiting), int64(want.MaxWaiting), func() { next.MaxWaiting = want.MaxWaiting })
	set("back-off", len(have.BackOff), 0, func() { next.BackOff = nil })
	set("inactive threshold", have.InactiveThreshold, time.Duration(0), func() { next.InactiveThreshold = 0 })
	set("headers only", have.HeadersOnly, false, func() { next.HeadersOnly = false })
	compareMeta(c, have.Metadata, want.Metadata)
	if len(c.Fields) == 0 {
		return next, nil
	}
	next.Metadata = mergeMeta(have.Metadata, want.Metadata)
	return next, c
}
