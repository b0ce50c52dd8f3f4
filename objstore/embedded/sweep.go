package embedded

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/versity/versitygw/backend/posix"
)

// forgotten is the age at which parts of an upload are taken for left behind.
const forgotten = 7 * 24 * time.Hour

// sweep removes what a crash has left in the buckets' temporary folders: the
// files of writes that were never answered, and parts of uploads that nobody has
// completed for a week. Nothing else writes there before the server starts.
func sweep(root string, now time.Time, log *slog.Logger) {
	files, _ := filepath.Glob(filepath.Join(root, "*", posix.MetaTmpDir, "*"))
	uploads, _ := filepath.Glob(filepath.Join(root, "*", posix.MetaTmpMultipartDir, "*", "*"))
	removed := 0
	for _, f := range files {
		if st, err := os.Lstat(f); err == nil && st.Mode().IsRegular() && os.Remove(f) == nil {
			removed++
		}
	}
	for _, u := range uploads {
		if st, err := os.Lstat(u); err == nil && now.Sub(st.ModTime()) > forgotten && os.RemoveAll(u) == nil {
			_ = os.Remove(filepath.Dir(u)) // unless another upload of that key is there
			removed++
		}
	}
	if removed > 0 {
		log.Info("removed what interrupted writes had left", "dir", root, "files", removed)
	}
}
