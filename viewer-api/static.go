package viewerapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"

	"github.com/gofiber/fiber/v3"
)

const indexFile = "index.html"

// static holds the files of the page, read once. A file may have compressed
// twins beside it, NAME.br and NAME.gz.
type static struct {
	files map[string]*asset
}

type asset struct {
	mime      string
	immutable bool
	plain     coding
	codings   []coding // best first
}

type coding struct {
	name string
	body []byte
	etag string
}

// hashed names of files never have another content.
var hashed = regexp.MustCompile(`^assets/.*[-.][A-Za-z0-9_-]{8,}\.[a-z0-9]+$`)

// mimes of what a page is made of: the system's table differs between machines.
var mimes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2", ".woff": "font/woff",
	".json": "application/json", ".webmanifest": "application/manifest+json", ".txt": "text/plain; charset=utf-8", ".map": "application/json",
}

// baseTag is where the page says what its addresses are relative to.
var baseTag = regexp.MustCompile(`<base href="[^"]*"\s*/?>`)

func loadStatic(files fs.FS, base string) (*static, error) {
	s := &static{files: map[string]*asset{}}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		ext := path.Ext(name)
		if ext == ".br" || ext == ".gz" || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		body, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		a := &asset{mime: mimes[ext], immutable: hashed.MatchString(name)}
		if a.mime == "" {
			a.mime = mime.TypeByExtension(ext)
		}
		if a.mime == "" {
			a.mime = "application/octet-stream"
		}
		if name == indexFile {
			// Its twins would have another base.
			body = baseTag.ReplaceAll(body, []byte(`<base href="`+base+`/">`))
		}
		a.plain = newCoding("", body)
		for _, c := range []struct{ name, ext string }{{"br", ".br"}, {"gzip", ".gz"}} {
			twin, err := fs.ReadFile(files, name+c.ext)
			if err != nil || name == indexFile {
				continue
			}
			a.codings = append(a.codings, newCoding(c.name, twin))
		}
		s.files[name] = a
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	if s.files[indexFile] == nil {
		return nil, errors.New("read the page: there is no " + indexFile)
	}
	return s, nil
}

func newCoding(name string, body []byte) coding {
	sum := sha256.Sum256(body)
	return coding{name: name, body: body, etag: `"` + hex.EncodeToString(sum[:12]) + name + `"`}
}

// page answers everything outside of /api with a file. A path without an
// extension is a place within the page; a file that is not there is not: after
// an update an old page must not take HTML for its script.
func (s *Server) page(c fiber.Ctx) error {
	name, err := pathName(c, "*")
	if err != nil {
		return err
	}
	a := s.static.files[name]
	if a == nil {
		if name != "" && (strings.HasPrefix(name, "assets/") || path.Ext(name) != "" && !strings.HasPrefix(name, "d/")) {
			return refuse(http.StatusNotFound, "there is no file %q", name)
		}
		name = indexFile
		a = s.static.files[name]
	}
	c.Set(fiber.HeaderCacheControl, "no-cache")
	if a.immutable {
		c.Set(fiber.HeaderCacheControl, "public, max-age=31536000, immutable")
	}
	c.Set(fiber.HeaderContentType, a.mime)
	c.Set(fiber.HeaderVary, fiber.HeaderAcceptEncoding)
	send := a.plain
	for _, alt := range a.codings {
		if accepts(c.Get(fiber.HeaderAcceptEncoding), alt.name) {
			send = alt
			c.Set(fiber.HeaderContentEncoding, alt.name)
			break
		}
	}
	c.Set(fiber.HeaderETag, send.etag)
	for tag := range strings.SplitSeq(c.Get(fiber.HeaderIfNoneMatch), ",") {
		if strings.TrimPrefix(strings.TrimSpace(tag), "W/") == send.etag {
			c.Response().Header.Del(fiber.HeaderContentEncoding)
			return c.SendStatus(http.StatusNotModified)
		}
	}
	return c.Send(send.body)
}
