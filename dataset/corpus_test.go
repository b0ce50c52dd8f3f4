package dataset_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
)

// corpus makes rows as data sets of text have them, about 1.85 KB each: a text
// with some line breaks, quotes and letters beyond ASCII, small columns and a
// nested object.
func corpus(n int) [][]byte {
	rng := rand.New(rand.NewPCG(11, 12))
	words := strings.Fields(`the quick brown fox said so went on its way and then slept of a to in that is was for it with as his
		on be at by had not are but from or have an they which one you were all her she there would their we him been has when who
		will no more if out up into do any your what could other than our some very time about upon may its only now over after
		naïve café Zürich “quoted” Ελλάδα 東京 résumé`)
	rows := make([][]byte, n)
	for i := range rows {
		var text strings.Builder
		for size := 1100 + rng.IntN(800); text.Len() < size; {
			text.WriteString(words[rng.IntN(len(words))])
			switch k := rng.IntN(100); {
			case k < 3:
				text.WriteString(`.\n`)
			case k < 5:
				text.WriteString(` \"`)
			default:
				text.WriteByte(' ')
			}
		}
		id := hex.EncodeToString(fmt.Appendf(nil, "%08x", rng.Uint32()))
		rows[i] = fmt.Appendf(nil, `{"id":"01931d5e-%s-7000-8000-%s","_created_at":"2026-11-30T06:%02d:%02d.%06dZ","text":"%s",`+
			`"source_id":"doc-%d","lang":"en","score":%.4f,"n_tokens":%d,"metadata":{"url":"https://example.org/a/%d","license":"cc-by",`+
			`"tags":["web","%s"],"crawl":{"depth":%d,"ok":true,"note":null}}}`,
			id[:4], id[4:16], rng.IntN(60), rng.IntN(60), rng.IntN(1_000_000), text.String(), rng.IntN(1e6), rng.Float64(),
			rng.IntN(900), i, words[rng.IntN(20)], rng.IntN(9))
	}
	return rows
}
