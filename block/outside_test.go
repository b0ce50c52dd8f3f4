package block_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Other tools must read a block as the format promises. Those that are not
// installed are passed over.
func TestOtherToolsReadABlock(t *testing.T) {
	rows := someRows(t, 1500)
	for i, r := range rows { // jq takes no half of a surrogate pair, though JSON does
		rows[i] = row(t, strings.ReplaceAll(string(r.Raw), `\ud83d`, `\ud83d\ude42`))
	}
	data, _ := write(t, 1, rows...)
	empty, _ := write(t, 1)
	dir := t.TempDir()
	full, none := filepath.Join(dir, "merged_00000.jsonl.gz"), filepath.Join(dir, "merged_00001.jsonl.gz")
	for path, b := range map[string][]byte{full: data, none: empty} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Join(raws(rows), "\n") + "\n"
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	const python = "import gzip, sys\nsys.stdout.buffer.write(gzip.open(sys.argv[1]).read())"
	for name, tc := range map[string]struct {
		script string
		want   string
	}{
		"gzip":    {`gzip -t "$1" && gunzip -c "$1"`, want},
		"zcat":    {`zcat "$1"`, want},
		"pigz":    {`pigz -dc "$1"`, want},
		"python3": {"python3 -c '" + python + `' "$1"`, want},
		"jq":      {`zcat "$1" | jq -r .id`, strings.Join(ids, "\n") + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				t.Skip(err)
			}
			for path, want := range map[string]string{full: tc.want, none: ""} {
				out, err := exec.CommandContext(t.Context(), "sh", "-c", tc.script, "sh", path).Output()
				if err != nil || string(out) != want {
					t.Errorf("%s: %d bytes, %v", filepath.Base(path), len(out), err)
				}
			}
		})
	}
}
