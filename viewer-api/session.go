package viewerapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v3"
)

const (
	cookieName  = "siltstone_session"
	sessionLife = 30 * 24 * time.Hour
)

// guard lets in who has the token or a session, and keeps other sites' pages
// from acting in a visitor's name.
func (s *Server) guard(c fiber.Ctx) error {
	c.Set(fiber.HeaderCacheControl, "no-store")
	if c.Method() == fiber.MethodPost {
		if err := s.sameSite(c); err != nil {
			return err
		}
	}
	if s.cfg.Token == "" || s.authorized(c) || c.Method() == fiber.MethodPost && c.Path() == s.cfg.BasePath+"/api/session" {
		return c.Next()
	}
	c.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="siltstone"`)
	return refuse(http.StatusUnauthorized, "a token is needed: send it as Authorization: Bearer, or give it to POST %s/api/session once", s.cfg.BasePath)
}

func (s *Server) authorized(c fiber.Ctx) bool {
	scheme, token, ok := strings.Cut(c.Get(fiber.HeaderAuthorization), " ")
	if ok && strings.EqualFold(scheme, "Bearer") && equal(strings.TrimSpace(token), s.cfg.Token) {
		return true
	}
	return s.validSession(c.Cookies(cookieName), time.Now())
}

// equal compares in a time that tells nothing, not even the length.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// sameSite refuses what the page of another site sends. A client that is no
// browser sends neither header.
func (s *Server) sameSite(c fiber.Ctx) error {
	switch c.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return nil
	case "":
	default:
		return refuse(http.StatusForbidden, "another site's page sent this")
	}
	origin := c.Get(fiber.HeaderOrigin)
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err != nil || u.Host == "" || !strings.EqualFold(u.Host, s.caller(c).host) {
		return refuse(http.StatusForbidden, "a page of %s sent this; a proxy in front must pass the Host header on", origin)
	}
	return nil
}

// session gives a cookie for the token, for pages, event streams and downloads,
// which cannot send a header.
func (s *Server) session(c fiber.Ctx) error {
	var in struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(c.Body(), &in); err != nil {
		return badRequest(`want {"token":"…"}`)
	}
	if s.cfg.Token != "" && !equal(in.Token, s.cfg.Token) {
		return refuse(http.StatusUnauthorized, "this is not the token")
	}
	if s.cfg.Token != "" {
		c.Cookie(&fiber.Cookie{
			Name: cookieName, Value: s.newSession(time.Now()), Path: s.cfg.BasePath + "/",
			HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode, Secure: s.caller(c).secure,
			MaxAge: int(sessionLife / time.Second),
		})
	}
	return c.SendStatus(http.StatusNoContent)
}

// newSession is a text that only who knows the token can make, and that does
// not tell it. It holds on every process with that token.
func (s *Server) newSession(now time.Time) string {
	return s.sign(strconv.FormatInt(now.Add(sessionLife).Unix(), 10))
}

func (s *Server) sign(until string) string {
	m := hmac.New(sha256.New, []byte(s.cfg.Token))
	m.Write([]byte("siltstone viewer session until " + until))
	return until + "." + hex.EncodeToString(m.Sum(nil))
}

func (s *Server) validSession(cookie string, now time.Time) bool {
	until, _, ok := strings.Cut(cookie, ".")
	unix, err := strconv.ParseInt(until, 10, 64)
	return ok && err == nil && equal(cookie, s.sign(until)) && now.Unix() < unix
}
