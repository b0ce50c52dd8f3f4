// Package siltstone_test keeps the house in order: which package may import
// which, who owns each outside library, and a few rules that no compiler knows.
// It parses the sources itself, because a test that shells out to the go
// command is cached and misses new imports.
package siltstone_test

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/siltstone-data/siltstone"

// A room is one row of the import table. The row of a package also holds for
// the packages below it that have no row of their own.
type room struct {
	may   []string          // our own packages that it may import
	tests []string          // what only its tests may import besides
	wires bool              // may import everything: these packages join the rest
	never map[string]string // bans worth a reason; the standard library's included
}

// testFloor is what the tests of every package may import besides: the real
// parts that tests are built from. A ban of the row still holds.
var testFloor = []string{"dataset", "block", "objstore", "objstore/mem", "objstore/objtest", "nats/embedded"}

// upstairs is what the tests of rooms and of the hall may import besides.
var upstairs = []string{"catalog", "index", "nats/bus"}

const roomsNeverMeet = "rooms never import rooms: they meet as events on the bus, and cmd wires them"

// house is the import table. What a row does not name is not allowed.
var house = map[string]room{
	"dataset": {
		never: map[string]string{
			"context":  "what can block is no noun",
			"net/http": "what can block is no noun",
			"os":       "nouns have no files",
		},
	},
	"block": {
		may: []string{"dataset"},
		never: map[string]string{
			"objstore": "rows as bytes and back: where the bytes lie is the caller's business",
			"nats/bus": "rows as bytes and back: nobody is told",
			"context":  "a reader and a writer are enough: whoever owns them cancels them",
		},
	},
	"objstore":          {never: map[string]string{"dataset": "bytes, not meanings"}},
	"objstore/s3":       {may: []string{"objstore"}, tests: []string{"objstore/embedded"}, never: map[string]string{"dataset": "bytes, not meanings"}},
	"objstore/mem":      {may: []string{"objstore"}, never: map[string]string{"dataset": "bytes, not meanings"}},
	"objstore/cache":    {may: []string{"objstore"}, never: map[string]string{"dataset": "bytes, not meanings"}},
	"objstore/embedded": {may: []string{"objstore", "objstore/s3"}, never: map[string]string{"dataset": "bytes, not meanings"}},
	"objstore/objtest":  {may: []string{"objstore", "objstore/mem"}, never: map[string]string{"dataset": "bytes, not meanings"}},
	"catalog": {
		may: []string{"dataset", "objstore"},
		never: map[string]string{
			"block":    "it decides what exists, not what is in it",
			"nats/bus": "the commit record is the truth; events are hints about it",
		},
	},
	"index": {
		may:   []string{"dataset", "block", "catalog", "objstore"},
		never: map[string]string{"nats/bus": "an index is derived from a block, whoever asks"},
	},
	"nats/bus": {
		may:   []string{"dataset"},
		never: map[string]string{"objstore": "events name objects and never read them"},
	},
	"nats/embedded": {tests: []string{"nats/bus"}},
	"query": {
		may:   []string{"dataset", "block", "catalog", "index", "objstore", "objstore/cache"},
		tests: upstairs,
		never: map[string]string{
			"nats/bus": "the read path knows no NATS: it declares where chunk lists come from",
			"net/http": "the read path knows no HTTP",
		},
	},
	"producers": {
		may:   []string{"dataset", "block", "catalog", "objstore", "nats/bus", "query"},
		tests: upstairs,
		never: map[string]string{
			"lockd": "it declares the Locker that it needs", "consumers": roomsNeverMeet, "merger": roomsNeverMeet, "viewer-api": roomsNeverMeet,
		},
	},
	"consumers": {
		may:   []string{"dataset", "catalog", "index", "objstore", "nats/bus"},
		tests: upstairs,
		never: map[string]string{
			"merger": roomsNeverMeet, "lockd": roomsNeverMeet, "producers": roomsNeverMeet, "viewer-api": roomsNeverMeet,
		},
	},
	"merger": {
		may:   []string{"dataset", "block", "catalog", "objstore"},
		tests: upstairs,
		never: map[string]string{
			"nats/bus": "it declares Announce, and cmd joins it to the bus",
			"lockd":    "merging needs no lease: the conditional commit is enough",
		},
	},
	"lockd": {
		may:   []string{"objstore"},
		never: map[string]string{"dataset": "it locks keys, which dataset spells"},
	},
	"viewer-api": {
		may:   []string{"dataset", "query", "nats/bus"},
		tests: append([]string{"objstore"}, upstairs...), // they put rows into a store in memory
		never: map[string]string{
			"block": "it asks query", "objstore": "it asks query", "catalog": "it asks query", "index": "it asks query",
		},
	},
	".":             {wires: true},
	"cmd/siltstone": {wires: true},
	"integration":   {wires: true},
	"bench":         {wires: true},
}

// onlyTests are packages made for tests, and onlyWiring packages that only
// those which join the rest may import.
var (
	onlyTests  = map[string]string{"objstore/objtest": "it holds faults and a conformance suite"}
	onlyWiring = map[string]string{
		".":             "the library's face stands above all that it wires",
		"cmd/siltstone": "a command is no library",
		"integration":   "it has no helpers for others",
		"bench":         "it has no helpers for others",
	}
)

// An owner says which of our packages may import an outside module. An owner
// "a" holds for the packages below a too; integration and bench may import
// everything, for they look at siltstone from outside.
type owner struct {
	module string
	owners []string // none: every package; "tests": every test
	why    string
}

var owners = []owner{
	{"github.com/nats-io", []string{"nats"}, "no message or connection of NATS leaves nats/"},
	{"github.com/aws", []string{"objstore/s3", "objstore/embedded", "objstore/objtest"}, "the S3 SDK stays behind objstore (the gateway's backend interface is spelled in its types; objtest sets up a server of another kind)"},
	{"github.com/versity/versitygw", []string{"objstore/embedded"}, "the embedded S3 server is one package"},
	{"github.com/duckdb/duckdb-go", []string{"query"}, "SQL is written in one place"},
	{"github.com/parquet-go/parquet-go", []string{"block", "index"}, "parquet is a block or an index"},
	{"github.com/gofiber/fiber", []string{"viewer-api"}, "the other roles serve health and metrics with net/http"},
	{"github.com/alecthomas/kong", []string{"cmd"}, "only commands have flags"},
	{"github.com/joho/godotenv", []string{"cmd"}, "only commands read the environment"},
	{"github.com/schollz/progressbar", []string{"cmd"}, "only commands have a terminal"},
	{"golang.org/x/term", []string{"cmd"}, "only commands have a terminal"},
	{"github.com/dustin/go-humanize", []string{"cmd"}, "only commands print for people"},
	{"github.com/go-json-experiment/json", []string{"dataset", "block"}, "what a valid row is, is said in one place"},
	{"github.com/google/uuid", []string{"dataset", "block", "nats/bus"}, "ids of rows are given in dataset; block spells those of parquet, the bus draws tokens for claims"},
	{"golang.org/x/text", []string{"dataset"}, "names know normal forms"},
	{"github.com/klauspost/compress", []string{"block", "tests"}, "compressed bytes are block's"},
	{"github.com/gofrs/flock", []string{"nats/embedded", "objstore/embedded", "objstore/cache", "cmd"}, "a server in the process, or a cache, owns its folder, and an export its file"},
	{"github.com/google/go-cmp", []string{"tests", "objstore/objtest"}, "a diff is for tests"},
	{"github.com/coder/websocket", []string{"lockd"}, "a mutex is held for as long as a connection is open"},
	{"golang.org/x/sync", nil, "errgroup and singleflight"},
	{"github.com/prometheus/client_golang", nil, "each component has its own metrics struct"},
}

// banned functions, by package: called or handed on.
var banned = map[string]map[string]string{
	"block": {
		"time.Now": "the same rows give the same bytes: no clocks", "time.Since": "the same rows give the same bytes: no clocks",
	},
	"dataset": {"time.Sleep": "what can block is no noun"},
}

// meaningless names: a package or a file says what it gives.
var meaningless = []string{"util", "utils", "common", "helper", "helpers", "types", "base", "shared", "misc"}

var unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)

// A file is one Go file of the project: its path with slashes, and its text.
type file struct{ path, text string }

func (f file) dir() string { return path.Dir(f.path) }
func (f file) test() bool  { return strings.HasSuffix(f.path, "_test.go") }
func (f file) stem() string {
	return strings.TrimSuffix(strings.TrimSuffix(path.Base(f.path), ".go"), "_test")
}

// inspect gives every broken rule, each with the file that breaks it. Files
// that are never built (tagged ignore) are left out.
func inspect(files []file) []string {
	var broken []string
	docs := map[string]string{} // package folder -> its name, where no doc comment was found yet
	documented := map[string]bool{}
	hasCode := map[string]bool{}
	for _, f := range files {
		hasCode[f.dir()] = hasCode[f.dir()] || !f.test()
	}
	for _, f := range files {
		say := func(format string, args ...any) {
			broken = append(broken, f.path+": "+fmt.Sprintf(format, args...))
		}
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, f.path, f.text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			say("does not parse: %v", err)
			continue
		}
		if neverBuilt(tree) {
			continue
		}
		for _, word := range strings.FieldsFunc(f.stem(), func(r rune) bool { return r == '_' || r == '-' }) {
			if slices.Contains(meaningless, word) {
				say("a file called %s says nothing: name it for its noun", path.Base(f.path))
			}
		}
		if slices.Contains(meaningless, tree.Name.Name) {
			say("a package called %s says nothing: name it for what it gives", tree.Name.Name)
		}
		if f.test() != hasCode[f.dir()] {
			docs[f.dir()] = tree.Name.Name
			if documents(tree, f.dir()) {
				documented[f.dir()] = true
			}
		}
		for _, spec := range tree.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				say("import %s: %v", spec.Path.Value, err)
				continue
			}
			if why := refuse(f, target); why != "" {
				say("imports %s: %s", target, why)
			}
		}
		for _, group := range tree.Comments {
			if found := unfinished.FindString(group.Text()); found != "" {
				say("%s in a comment: finish it, or write an issue", found)
			}
		}
		for name, why := range uses(tree, f) {
			say("uses %s: %s", name, why)
		}
	}
	for dir, name := range docs {
		if !documented[dir] {
			broken = append(broken, fmt.Sprintf("%s: package %s has no doc comment that starts with its sentence", dir, name))
		}
	}
	slices.Sort(broken)
	return broken
}

func neverBuilt(tree *ast.File) bool {
	for _, group := range tree.Comments {
		if group.Pos() > tree.Package {
			break
		}
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil {
				return !expr.Eval(func(tag string) bool { return tag != "ignore" })
			}
		}
	}
	return false
}

// documents tells whether the file carries the doc comment of its package. A
// command says "Command x", where x is its folder.
func documents(tree *ast.File, dir string) bool {
	text := strings.Join(strings.Fields(tree.Doc.Text()), " ")
	name := tree.Name.Name
	if name == "main" {
		return strings.HasPrefix(text, "Command "+path.Base(dir)+" ")
	}
	return strings.HasPrefix(text, "Package "+name+" ") || strings.HasPrefix(text, "Package "+strings.TrimSuffix(name, "_test")+" ")
}

// refuse says why a file may not import target; empty when it may.
func refuse(f file, target string) string {
	row, has := rowOf(f.dir())
	if !has {
		return "package " + f.dir() + " has no row in the import table of house_test.go"
	}
	own := ""
	switch {
	case target == module:
		own = "."
	case strings.HasPrefix(target, module+"/"):
		own = strings.TrimPrefix(target, module+"/")
	case target == "C":
		return "cgo is the database driver's business"
	case !strings.Contains(strings.Split(target, "/")[0], "."): // standard library
		if f.test() {
			return ""
		}
		return house[row].never[target]
	default:
		return refuseOutside(f, target)
	}
	if targetRow, has := rowOf(own); has && targetRow == row {
		return ""
	}
	if why, is := onlyTests[own]; is && !f.test() && !house[row].wires {
		return "it is for tests: " + why
	}
	if why, is := onlyWiring[own]; is && !house[row].wires {
		return why
	}
	if house[row].wires || slices.Contains(house[row].may, own) || f.test() && slices.Contains(house[row].tests, own) {
		return ""
	}
	if why := house[row].never[own]; why != "" {
		return why
	}
	if f.test() && slices.Contains(testFloor, own) {
		return ""
	}
	return "the row of " + row + " in house_test.go does not name it"
}

// rowOf is the row that holds for a package: its own, or that of the nearest
// folder above it.
func rowOf(dir string) (string, bool) {
	for at := dir; ; at = path.Dir(at) {
		if _, has := house[at]; has && (at != "." || dir == ".") {
			return at, true
		}
		if at == "." {
			return "", false
		}
	}
}

func refuseOutside(f file, target string) string {
	for _, o := range owners {
		if !below(target, o.module) {
			continue
		}
		ok := len(o.owners) == 0 || below(f.dir(), "integration") || below(f.dir(), "bench")
		for _, dir := range o.owners {
			ok = ok || below(f.dir(), dir) || dir == "tests" && f.test()
		}
		if !ok {
			return fmt.Sprintf("%s is owned by %s: %s", o.module, strings.Join(o.owners, " and "), o.why)
		}
		return ""
	}
	return "the module has no owner in house_test.go, and no line in docs/decisions/0009-dependencies.md"
}

// below tells whether dir is root or lies under it.
func below(dir, root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") }

// uses gives the functions that the file uses though a rule forbids them, each
// with the reason.
func uses(tree *ast.File, f file) map[string]string {
	found := map[string]string{}
	names := map[string]string{} // local name -> import path, for the packages that rules speak of
	for _, spec := range tree.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		local := path.Base(target)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		names[local] = target
	}
	row, _ := rowOf(f.dir())
	spell := func(n ast.Node) string {
		if sel, is := n.(*ast.SelectorExpr); is {
			if pkg, is := sel.X.(*ast.Ident); is {
				return names[pkg.Name] + "." + sel.Sel.Name
			}
		}
		return ""
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is && spell(call.Fun) == "testing/synctest.Test" {
			return false // time is virtual inside: a sleep there costs nothing and is exact
		}
		name := spell(n)
		switch {
		case f.test() && name == "time.Sleep":
			found[name] = "a sleep in a test is a bug: wait for a condition, or use testing/synctest"
		case !f.test() && banned[row][name] != "":
			found[name] = banned[row][name]
		}
		return true
	})
	return found
}

// sources reads every Go file below the module's root.
func sources(t *testing.T) []file {
	t.Helper()
	var files []file
	walk(t, ".go", func(name, text string) { files = append(files, file{name, text}) })
	return files
}

func walk(t *testing.T, ext string, fn func(name, text string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			skip := name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
			if skip || slices.Contains([]string{"testdata", "node_modules", "viewer-ui", "bin", "dist"}, base) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ext {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fn(filepath.ToSlash(name), string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryImportIsInTheTable(t *testing.T) {
	files := sources(t)
	if len(files) < 2 {
		t.Fatalf("found %d Go files: the test must run at the module's root", len(files))
	}
	for _, line := range inspect(files) {
		t.Error(line)
	}
}

func TestTheTableSaysOneThing(t *testing.T) {
	for name, row := range house {
		for _, own := range row.may {
			if row.never[own] != "" {
				t.Errorf("%s may import %s, and never", name, own)
			}
			if _, has := house[own]; !has {
				t.Errorf("%s may import %s, which has no row", name, own)
			}
		}
		for target, why := range row.never {
			if why == "" {
				t.Errorf("%s never imports %s, but nobody says why", name, target)
			}
		}
	}
	for _, o := range owners {
		for _, dir := range o.owners {
			if _, has := rowOf(dir); !has && dir != "tests" && dir != "nats" && dir != "cmd" {
				t.Errorf("%s is owned by %s, which has no row", o.module, dir)
			}
		}
	}
}

func TestTheCheckFindsWhatIsWrong(t *testing.T) {
	code := func(at, name string, imports ...string) file {
		var b strings.Builder
		fmt.Fprintf(&b, "// Package %s is an example.\npackage %s\n", name, strings.TrimSuffix(name, "!"))
		for _, target := range imports {
			fmt.Fprintf(&b, "import _ %q\n", target)
		}
		return file{at, b.String()}
	}
	own := func(p string) string { return module + "/" + p }
	const docs = "// Package x_test is an example.\n"
	cases := []struct {
		name string
		in   []file
		want string // part of the one broken rule; empty: none
	}{
		{"a room may import the floor", []file{code("merger/a.go", "merger", own("block"), own("catalog"), "context")}, ""},
		{"a room must not import a room", []file{code("merger/a.go", "merger", own("producers"))}, "does not name it"},
		{"a ban gives its reason", []file{code("merger/a.go", "merger", own("nats/bus"))}, "it declares Announce"},
		{"a package below a room is of that room", []file{code("merger/policy/a.go", "policy", own("lockd"))}, "merging needs no lease"},
		{"a room may import what lies below it", []file{code("merger/a.go", "merger", own("merger/policy"))}, ""},
		{"what lies below may import its room", []file{code("merger/policy/a.go", "policy", own("merger"))}, ""},
		{"the floor does not look up", []file{code("catalog/a.go", "catalog", own("query"))}, "does not name it"},
		{"a noun has no context", []file{code("dataset/a.go", "dataset", "context")}, "what can block is no noun"},
		{"a test of a noun may have one", []file{code("dataset/a.go", "dataset"), {"dataset/a_test.go", "package dataset_test\nimport _ \"context\"\n"}}, ""},
		{"bytes, not meanings", []file{code("objstore/mem/a.go", "mem", own("dataset"))}, "bytes, not meanings"},
		{"bytes, not meanings, in tests too", []file{code("objstore/mem/a_test.go", "mem_test", own("dataset"))}, "bytes, not meanings"},
		{"a test may use the store in memory", []file{code("catalog/a_test.go", "catalog_test", own("objstore/mem"))}, ""},
		{"code may not", []file{code("catalog/a.go", "catalog", own("objstore/mem"))}, "does not name it"},
		{"faults stay in tests", []file{code("catalog/a.go", "catalog", own("objstore/objtest"))}, "it is for tests"},
		{"the face is not imported", []file{code("query/a.go", "query", module)}, "stands above"},
		{"a command imports the face", []file{code("cmd/siltstone/a.go", "main!", module)}, "no doc comment"},
		{"a package without a row", []file{code("plugins/a.go", "plugins", "fmt")}, "has no row"},
		{"a library at its owner's", []file{code("nats/bus/a.go", "bus", "github.com/nats-io/nats.go/jetstream")}, ""},
		{"a library elsewhere", []file{code("consumers/a.go", "consumers", "github.com/nats-io/nats.go")}, "owned by nats"},
		{"a name that only begins alike", []file{code("nats/bus/a.go", "bus", "github.com/nats-io-fork/nats.go")}, "has no owner"},
		{"a library for tests", []file{code("query/a.go", "query", "github.com/google/go-cmp/cmp")}, "owned by tests"},
		{"a library that nobody owns", []file{code("query/a.go", "query", "github.com/pkg/errors")}, "has no owner"},
		{"integration looks from outside", []file{code("integration/a_test.go", "integration_test", "github.com/duckdb/duckdb-go/v2")}, ""},
		{"no doc comment", []file{{"query/a.go", "package query\n"}}, "no doc comment"},
		{"a doc comment about something else", []file{{"query/a.go", "// Here we query.\npackage query\n"}}, "no doc comment"},
		{"a doc comment in the test does not count", []file{{"query/a.go", "package query\n"}, {"query/a_test.go", "// Package query asks.\npackage query\n"}}, "no doc comment"},
		{"one doc comment is enough", []file{code("query/a.go", "query"), {"query/b.go", "package query\n"}}, ""},
		{"a command documents itself", []file{{"cmd/siltstone/main.go", "// Command siltstone runs.\npackage main\n"}}, ""},
		{"a meaningless file", []file{code("query/row_helpers.go", "query")}, "says nothing"},
		{"a meaningless test file", []file{code("query/a.go", "query"), {"query/util_test.go", "package query_test\n"}}, "says nothing"},
		{"a meaningless package", []file{code("query/common/a.go", "common")}, "says nothing"},
		{"an unfinished thought", []file{{"query/a.go", "// Package query asks.\npackage query\n\n// TODO: later\n"}}, "TODO in a comment"},
		{"a sleep in a test", []file{{"query/a_test.go", docs + "package x_test\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"}}, "a sleep in a test"},
		{"a sleep under another name", []file{{"query/a_test.go", docs + "package x_test\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }\n"}}, "a sleep in a test"},
		{"a sleep in virtual time", []file{{"query/a_test.go", docs + "package x_test\nimport (\"testing/synctest\"; \"time\")\nfunc f() { synctest.Test(nil, func() { time.Sleep(1) }) }\n"}}, ""},
		{"a clock in block", []file{{"block/a.go", "// Package block is.\npackage block\nimport \"time\"\nvar now = time.Now\n"}}, "no clocks"},
		{"a file that is never built", []file{{"query/a.go", "//go:build ignore\n\npackage main\nimport _ \"github.com/pkg/errors\"\n"}}, ""},
		{"a file that does not parse", []file{{"query/a.go", "package"}}, "does not parse"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := inspect(c.in)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("nothing is wrong with it, but: %q", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
				t.Errorf("got %q, want one line with %q", got, c.want)
			}
		})
	}
}

// link finds the targets of Markdown links and pictures that are not
// addresses on the web.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)

func TestDocumentsLinkToFilesThatExist(t *testing.T) {
	walk(t, ".md", func(name, text string) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target := path.Join(path.Dir(name), found[1])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", name, found[1])
			}
		}
	})
}
