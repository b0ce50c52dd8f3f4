package lockd

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Seconds is a duration that is a number of seconds in JSON.
type Seconds time.Duration

// maxSeconds is more than any limit here, and fits a Duration.
const maxSeconds = 1e9

// MarshalJSON writes the number, to the millisecond.
func (s Seconds) MarshalJSON() ([]byte, error) {
	v := math.Round(time.Duration(s).Seconds()*1000) / 1000
	return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
}

// readSeconds reads a number of seconds as JSON writes it.
func readSeconds(v string) (time.Duration, error) {
	var s Seconds
	if err := json.Unmarshal([]byte(v), &s); err != nil {
		return 0, invalid("%.40q is no number of seconds", v)
	}
	return time.Duration(s), nil
}

// UnmarshalJSON reads a number of seconds.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("%s is no number of seconds", b)
	}
	if !(math.Abs(f) <= maxSeconds) {
		return fmt.Errorf("%s seconds are more than anybody waits", b)
	}
	*s = Seconds(math.Round(f * float64(time.Second)))
	return nil
}
