package viewerapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/siltstone-data/siltstone/nats/bus"
)

// maxJobs bounds the answer: what comes behind is only counted as more.
const maxJobs = 1000

type jobAnswer struct {
	ID        string     `json:"id"` // for retry
	Kind      string     `json:"kind"`
	Dataset   string     `json:"dataset"`
	Batch     string     `json:"batch"`
	Annotator *string    `json:"annotator"`
	State     string     `json:"state"`    // scheduled, waiting, running, failing or dead
	Schedule  *string    `json:"schedule"` // quiet or max, of a scheduled one
	Since     *time.Time `json:"since"`
	Due       *time.Time `json:"due"` // not before
	Worker    *string    `json:"worker"`
	Tries     int        `json:"tries"`
	Error     *string    `json:"error"` // of the last failure
}

// letterAnswer is an event, notification or job that was given up.
type letterAnswer struct {
	ID     string     `json:"id"`
	By     string     `json:"by"`  // the durable that gave up
	Job    *string    `json:"job"` // the job's id, where it was one
	Reason string     `json:"reason"`
	Tries  int        `json:"tries"`
	At     *time.Time `json:"at"`
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// jobs answers GET /api/jobs.
func (s *Server) jobs(c fiber.Ctx) error {
	if _, err := values(c); err != nil {
		return err
	}
	ctx, leave, err := s.within(c)
	if err != nil {
		return err
	}
	defer leave()
	out := struct {
		Jobs []jobAnswer    `json:"jobs"`
		Dead []letterAnswer `json:"dead"`
		More bool           `json:"more"` // there are more than were listed
	}{Jobs: []jobAnswer{}, Dead: []letterAnswer{}}
	for j, err := range s.bus.Jobs(ctx) {
		if err != nil {
			return err
		}
		if len(out.Jobs) == maxJobs {
			out.More = true
			break
		}
		b := j.Job.Batch
		out.Jobs = append(out.Jobs, jobAnswer{
			ID: j.Job.String(), Kind: j.Job.Kind, Dataset: b.Dataset, Batch: b.Batch, Annotator: text(b.Annotator),
			State: string(j.State), Schedule: text(j.Schedule), Since: moment(j.Since), Due: moment(j.Due),
			Worker: text(j.Worker), Tries: j.Tries, Error: text(j.Error),
		})
	}
	for d, err := range s.bus.Dead(ctx) {
		if err != nil {
			return err
		}
		if len(out.Dead) == maxJobs {
			out.More = true
			break
		}
		l := letterAnswer{ID: d.ID, By: d.Durable, Reason: d.Reason, Tries: d.Tries, At: moment(d.At)}
		if d.Job != nil {
			l.Job = text(d.Job.String())
		}
		out.Dead = append(out.Dead, l)
	}
	return answer(c, out)
}

// retry answers POST /api/jobs/ID/retry.
func (s *Server) retry(c fiber.Ctx) error {
	id, err := pathName(c, "id")
	if err != nil {
		return err
	}
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		if _, err := bus.ParseJob(id); err != nil {
			return badRequest("%q is neither the id of a dead letter nor KIND/DATASET/BATCH", id)
		}
	}
	ctx, leave, err := s.within(c)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.bus.Retry(ctx, id); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}
