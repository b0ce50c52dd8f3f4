package block

import "io"

// Stream gives values one by one, then io.EOF. A value is valid until the next
// call.
type Stream[T any] interface {
	Next() (T, error)
}

// Merge makes one ordered stream of ordered streams. Equal values come in the
// order of their streams. It asks a stream for its next value only after the
// caller has asked for the one after that stream's last, so values stay valid.
// The first error, of whatever stream, ends the merge.
func Merge[T any](cmp func(a, b T) int, streams ...Stream[T]) Stream[T] {
	return &merged[T]{cmp: cmp, waiting: streams}
}

// merged is a binary heap of the streams' present values.
type merged[T any] struct {
	cmp     func(a, b T) int
	waiting []Stream[T] // not asked yet
	heap    []head[T]
	given   bool // heap[0] has been given away
	err     error
}

type head[T any] struct {
	value  T
	stream Stream[T]
	number int
}

func (m *merged[T]) Next() (T, error) {
	var none T
	if m.err == nil {
		m.err = m.advance()
	}
	if m.err != nil {
		return none, m.err
	}
	m.given = true
	return m.heap[0].value, nil
}

// advance brings the least value to heap[0].
func (m *merged[T]) advance() error {
	for i, s := range m.waiting {
		v, err := s.Next()
		if err == io.EOF {
			continue
		}
		if err != nil {
			return err
		}
		m.heap = append(m.heap, head[T]{v, s, i})
	}
	if m.waiting != nil {
		m.waiting = nil
		for i := len(m.heap)/2 - 1; i >= 0; i-- {
			m.down(i)
		}
	}
	if m.given {
		m.given = false
		top := &m.heap[0]
		v, err := top.stream.Next()
		switch {
		case err == io.EOF:
			last := len(m.heap) - 1
			m.heap[0] = m.heap[last]
			m.heap[last] = head[T]{}
			m.heap = m.heap[:last]
		case err != nil:
			return err
		default:
			top.value = v
		}
		m.down(0)
	}
	if len(m.heap) == 0 {
		return io.EOF
	}
	return nil
}

func (m *merged[T]) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heap); child++ {
			if m.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}

func (m *merged[T]) less(i, j int) bool {
	a, b := &m.heap[i], &m.heap[j]
	if c := m.cmp(a.value, b.value); c != 0 {
		return c < 0
	}
	return a.number < b.number
}
