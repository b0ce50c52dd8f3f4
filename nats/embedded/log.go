package embedded

import (
	"fmt"
	"log/slog"

	"github.com/nats-io/nats-server/v2/server"
)

// logger writes the server's lines to slog. Its notices (version, addresses,
// store) are of interest only when something is wrong with them: debug.
type logger struct{ log *slog.Logger }

var _ server.Logger = (*logger)(nil)

func (l *logger) Noticef(f string, a ...any) { l.log.Debug("nats server: " + fmt.Sprintf(f, a...)) }
func (l *logger) Warnf(f string, a ...any)   { l.log.Warn("nats server: " + fmt.Sprintf(f, a...)) }
func (l *logger) Fatalf(f string, a ...any)  { l.log.Error("nats server: " + fmt.Sprintf(f, a...)) }
func (l *logger) Errorf(f string, a ...any)  { l.log.Error("nats server: " + fmt.Sprintf(f, a...)) }
func (l *logger) Debugf(f string, a ...any)  { l.log.Debug("nats server: " + fmt.Sprintf(f, a...)) }
func (l *logger) Tracef(f string, a ...any)  { l.log.Debug("nats server: " + fmt.Sprintf(f, a...)) }
