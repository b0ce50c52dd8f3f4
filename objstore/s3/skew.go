package s3

import (
	"errors"
	"net/http"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// skewMost is how far from its own time a store takes a signature's to be.
const skewMost = 5 * time.Minute

// signedAt is the layout of X-Amz-Date.
const signedAt = "20060102T150405Z"

// skewed tells that a refused request bore a time that is not the store's: the
// clock of this machine is wrong. The SDK takes the difference from the answer
// and signs the next request with the store's time, so that one is worth making.
// Stores have many words for it, and none in the answer to a HEAD, hence the
// comparison.
func skewed(err error) bool {
	var resp *smithyhttp.ResponseError
	if !errors.As(err, &resp) || resp.Response == nil || resp.Response.Response == nil || resp.Response.Request == nil {
		return false
	}
	if s := resp.HTTPStatusCode(); s != http.StatusForbidden && s != http.StatusBadRequest && s != http.StatusUnauthorized {
		return false
	}
	theirs, err1 := smithyhttp.ParseTime(resp.Response.Header.Get("Date"))
	ours, err2 := time.Parse(signedAt, resp.Response.Request.Header.Get("X-Amz-Date"))
	return err1 == nil && err2 == nil && theirs.Sub(ours).Abs() > skewMost
}
