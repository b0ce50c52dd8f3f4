package objstore

import "context"

// fewPage is how many names the first page of such a list has.
const fewPage = 100

type few struct{}

// ExpectFew says of lists made with the context that few objects are wanted,
// although many may follow them: a store may begin with a small page. It is a
// hint, and changes nothing of what a list gives.
func ExpectFew(ctx context.Context) context.Context { return context.WithValue(ctx, few{}, true) }

// FirstPage is how many names a store whose pages have size names asks for
// first.
func FirstPage(ctx context.Context, size int) int {
	if ctx.Value(few{}) != nil {
		return min(size, fewPage)
	}
	return size
}
