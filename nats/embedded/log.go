package embedded

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// logger writes the server's lines to slog. Its notices (version, addresses,
// store) are of interest only when something is wrong with them: debug.
type logger struct {
	log   *slog.Logger
	fatal chan string // the first fatal line: the server will not start
}

var _ server.Logger = (*logger)(nil)

func (l *logger) Noticef(f string, a ...any) { l.log.Debug("nats server: " + fmt.Sprintf(f, a...)) }
func (l *logger) Warnf(f string, a ...any) {
	if strings.HasPrefix(f, "Plaintext passwords") {
		return // it came from the caller's memory, not from a file that others read
	}
	l.log.Warn("nats server: " + fmt.Sprintf(f, a...))
}
func (l *logger) Fatalf(f string, a ...any) {
	select {
	case l.fatal <- fmt.Sprintf(f, a...):
	default:
		l.log.Error("nats server: " + fmt.Sprintf(f, a...))
	}
}
func (l *logger) Errorf(f string, a ...any) { l.log.Error("nats server: " + fmt.Sprintf(f, a...)) }
func (l *logger) Debugf(f string, a ...any) { l.log.Debug("nats server: " + fmt.Sprintf(f, a...)) }
func (l *logger) Tracef(f string, a ...any) { l.log.Debug("nats server: " + fmt.Sprintf(f, a...)) }
