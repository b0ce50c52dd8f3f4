package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/siltstone-data/siltstone/objstore"
)

// ErrNoBucket says that the bucket itself does not exist. It is not ErrNotFound: a wrong
// bucket name must not look like a bucket without objects.
var ErrNoBucket = errors.New("bucket does not exist")

// What else keeps a store from being used at all, whatever is asked of it.
var (
	// ErrDenied: the store does not know the access key, or the secret is not
	// its own, or it may not do this; or there are no keys to send.
	ErrDenied = errors.New("access denied")
	// ErrUnreachable: no answer came, from the name of the host on.
	ErrUnreachable = errors.New("the store cannot be reached")
	// ErrRegion: the bucket is in another region than requests are signed for.
	ErrRegion = errors.New("wrong region")
)

// errStalled is the cause of an attempt that moved no byte for Retry.Stall.
var errStalled = errors.New("no byte moved for too long")

// errAnswer marks an answer that cannot be what the store meant to say.
var errAnswer = errors.New("incomplete answer")

// kind says what a failed attempt means for the next one.
type kind int

const (
	final     kind = iota // trying again changes nothing
	transient             // trying again may help
	throttled             // the store wants fewer requests
	conflict              // another write was under way: not lost, not won
)

// verdict is what a failed attempt means.
type verdict struct {
	kind   kind
	unsure bool // a write may have had its effect, or may still have it
}

// judge tells what a failed attempt means; sent says that a request went out.
func judge(err error, sent bool) verdict {
	if errors.Is(err, errAgain) || hasNoKeys(err) {
		return verdict{kind: final}
	}
	switch codeOf(err) {
	case "SlowDown", "TooManyRequests", "TooManyRequestsException", "RequestLimitExceeded", "Throttling", "ThrottlingException", "BandwidthLimitExceeded":
		return verdict{kind: throttled}
	case "ConditionalRequestConflict", "OperationAborted", "Conflict": // the last is what an answer without a code becomes
		return verdict{kind: conflict}
	case "PreconditionFailed", "NoSuchKey", "NoSuchUpload", "NoSuchBucket", "NotImplemented":
		return verdict{kind: final}
	case "RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch", "RequestTimeTooSkewed":
		return verdict{kind: transient} // refused, the body or the clock was not right
	}
	switch status := statusOf(err); {
	case skewed(err):
		return verdict{kind: transient} // the SDK signs the next request with the store's time
	case status == http.StatusTooManyRequests:
		return verdict{kind: throttled}
	case status == http.StatusServiceUnavailable:
		return verdict{kind: throttled, unsure: true} // a proxy may say that after passing the request on
	case status == http.StatusNotImplemented:
		return verdict{kind: final}
	case status >= 500, status == http.StatusRequestTimeout:
		return verdict{kind: transient, unsure: true}
	case errors.As(err, new(*smithy.DeserializationError)), errors.Is(err, errAnswer), errors.Is(err, errStalled):
		return verdict{kind: transient, unsure: sent}
	case status != 0 && status/100 != 2: // a 2xx that is an error broke off
		return verdict{kind: final}
	case sent, isNetwork(err):
		return verdict{kind: transient, unsure: sent}
	}
	return verdict{kind: final} // settings, credentials, our own reader
}

func isNetwork(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) || errors.As(err, new(*smithyhttp.RequestSendError)) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func codeOf(err error) string {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return ""
	}
	return api.ErrorCode()
}

func statusOf(err error) int {
	var resp *smithyhttp.ResponseError
	if errors.As(err, &resp) && resp.Response != nil {
		return resp.HTTPStatusCode()
	}
	return 0
}

// translate gives the outcome that callers of a Store tell apart. Where no
// outcome says all, the SDK's error stays in the chain.
func translate(err error) error {
	var outcome error
	switch code, status := codeOf(err), statusOf(err); {
	case code == "NoSuchBucket":
		outcome = ErrNoBucket
	case code == "PreconditionFailed", status == http.StatusPreconditionFailed:
		outcome = objstore.ErrLost
	case code == "NoSuchKey", code == "NotFound" && status == http.StatusNotFound: // the latter from HEAD, which has no body
		outcome = objstore.ErrNotFound
	case code == "AuthorizationHeaderMalformed", code == "PermanentRedirect", code == "IllegalLocationConstraintException", status == http.StatusMovedPermanently:
		return &fault{ErrRegion, err}
	case code == "RequestTimeTooSkewed", skewed(err):
		return err // whatever the keys are
	case code == "XAdminUserNotFound", // of versitygw, with 404
		status == http.StatusUnauthorized, status == http.StatusForbidden, hasNoKeys(err):
		return &fault{ErrDenied, err}
	case status == 0 && (errors.Is(err, errStalled) || isNetwork(err) && !errors.Is(err, context.Canceled)):
		return &fault{ErrUnreachable, err}
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", outcome, brief(err))
}

// fault is an outcome with what led to it.
type fault struct{ outcome, err error }

func (f *fault) Error() string   { return fmt.Sprintf("%v (%v)", f.outcome, f.err) }
func (f *fault) Unwrap() []error { return []error{f.outcome, f.err} }

// hasNoKeys says that nothing was sent, for want of keys to sign it with.
func hasNoKeys(err error) bool {
	var op *smithy.OperationError
	return errors.As(err, &op) && strings.HasPrefix(op.Err.Error(), "get identity: ")
}

// quiet is an SDK error without the noise around what it says: names of
// operations, numbers of requests, whole URLs.
type quiet struct{ err error }

func (q *quiet) Error() string { return brief(q.err) }
func (q *quiet) Unwrap() error { return q.err }

// quieten leaves errors alone that are not the SDK's.
func quieten(err error) error {
	if !errors.As(err, new(*smithy.OperationError)) {
		return err
	}
	return &quiet{err}
}

// brief is the part of an SDK error that says something.
func brief(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorMessage() != "" {
		return api.ErrorCode() + ": " + api.ErrorMessage()
	}
	if code := codeOf(err); code != "" {
		return code
	}
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err.Error()
	}
	if status := statusOf(err); status != 0 {
		return fmt.Sprintf("status %d", status)
	}
	var op *smithy.OperationError
	if errors.As(err, &op) {
		err = op.Err
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.Err != nil {
		err = response.Err // there was none
	}
	return err.Error()
}

// cause prefers the reason of a cancelled attempt over "context canceled".
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && !errors.Is(err, c) {
		return fmt.Errorf("%w (%w)", c, err)
	}
	return err
}
