package duck

import (
	"context"
	"testing"
)

func TestTry(t *testing.T) {
	e, _ := New(Config{})
	for _, s := range []string{"length(text) > 100", "A.f = 'x' and \"a b\" is null", "x->'$.a'->>'b' = 'c'", "x::JSON->>'$.a' ilike '%b_' escape 'x'", "extract(year from d::date) between 2000 and 2010", "x not in ('a','b') or not y", "x::varchar[] = ['a']", "case when x then y else z end", "try_cast(x as decimal(10,2)) > 1.5", "nullif(x, 1) = 2", "x[1:2] = 'ab'", "trim(both 'a' from x) = ''", "regexp_matches(x, '^a+$', 'i')", "d::timestamp > timestamp '2020-01-01' + interval 3 days", "x is true", "x is not false", "x > -1 and y = -1.5e10", "not (x = true)", "x in (true,false)", "date_diff('day', x::date, y::date) > 3", "now() > x", "getenv('HOME') = 'a'", "(select 1) = 1", "1), (2", "true) as x --", "x -- comment", "lower(lower(lower(lower(lower(lower(lower(lower(lower(x))))))))) = ''"} {
		x, err := e.Compile(context.Background(), s)
		if err != nil {
			t.Log(s, " => ", err)
			continue
		}
		b := x.Batch()
		vals := [][]byte{[]byte(`"abc"`), []byte(`12`), nil}
		b.Add(vals[:len(x.Columns())])
		tr, err := b.Decide(context.Background())
		t.Log(s, " => ", x.text, x.columns, tr, err)
	}
}
