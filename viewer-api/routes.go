package viewerapi

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
)

// routes lists everything that the server answers.
func (s *Server) routes(ops http.Handler) *fiber.App {
	app := fiber.New(fiber.Config{
		CaseSensitive: true, StrictRouting: true,
		Immutable:      true, // texts of a request outlive it, in streams
		BodyLimit:      bodySize,
		ReadBufferSize: headerSize,
		ReadTimeout:    30 * time.Second,
		WriteTimeout:   30 * time.Second, // streams extend theirs
		IdleTimeout:    2 * time.Minute,
		ErrorHandler:   s.fail,
		// A listener of hours does not hold the buffer of its request.
		ReduceMemoryUsage: true,
	})
	app.Use(s.observe, secure, s.meant)
	if ops != nil {
		door := adaptor.HTTPHandler(ops)
		app.Get("/healthz", door)
		app.Get("/readyz", door)
		app.Get("/metrics", door)
	}
	if s.cfg.BasePath != "" {
		app.Get("/", s.toBase)
		app.Get(s.cfg.BasePath, s.toBase)
	}
	base := app.Group(s.cfg.BasePath)
	api := base.Group("/api", s.guard)
	for _, r := range []struct {
		method, path string
		handler      fiber.Handler
	}{
		{fiber.MethodPost, "/session", s.session},
		{fiber.MethodGet, "/datasets", s.datasets},
		{fiber.MethodGet, "/datasets/:dataset", s.dataset},
		{fiber.MethodGet, "/datasets/:dataset/schema", s.schema},
		{fiber.MethodGet, "/datasets/:dataset/data", s.data},
		{fiber.MethodGet, "/datasets/:dataset/rows", s.rows},
		{fiber.MethodGet, "/datasets/:dataset/rows/:id", s.rows},
		{fiber.MethodGet, "/datasets/:dataset/count", s.count},
		{fiber.MethodGet, "/datasets/:dataset/conversion", s.conversion},
		{fiber.MethodGet, "/jobs", s.jobs},
		{fiber.MethodPost, "/jobs/:id/retry", s.retry},
		{fiber.MethodGet, "/locks", s.locks},
		{fiber.MethodGet, "/events", s.events},
	} {
		methods := []string{r.method}
		if r.method == fiber.MethodGet {
			methods = append(methods, fiber.MethodHead)
		}
		api.Add(methods, r.path, r.handler)
		api.All(r.path, func(c fiber.Ctx) error {
			c.Set(fiber.HeaderAllow, r.method)
			return refuse(http.StatusMethodNotAllowed, "%s takes %s", c.Path(), r.method)
		})
	}
	api.Use(s.nowhere)
	base.Get("/*", s.page)
	return app
}

// nowhere answers what is below /api and is nothing.
func (s *Server) nowhere(c fiber.Ctx) error {
	return refuse(http.StatusNotFound, "there is nothing at %s", c.Path())
}

func (s *Server) toBase(c fiber.Ctx) error {
	return c.Redirect().Status(http.StatusFound).To(s.cfg.BasePath + "/")
}

// observe times every request, logs it where that is wanted, and turns panics
// and errors into answers.
func (s *Server) observe(c fiber.Ctx) (err error) {
	began := time.Now()
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("a handler panicked", keyPath, c.Path(), keyErr, v, "stack", string(debug.Stack()))
			err = s.fail(c, fmt.Errorf("panic: %v", v))
		}
		took := time.Since(began)
		status := c.Response().StatusCode()
		route := strings.TrimPrefix(c.Route().Path, s.cfg.BasePath)
		s.m.requests.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
		if s.cfg.LogTimings {
			s.log.Info("request", keyMethod, c.Method(), keyPath, c.Path(), keyStatus, status, keyTook, took, keyAddr, s.caller(c).addr)
		}
	}()
	if err := c.Next(); err != nil {
		return s.fail(c, err)
	}
	return nil
}

func newRequestID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
