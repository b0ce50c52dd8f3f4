package query

// Clip is clip, which pages use.
var Clip = clip

// SetMaxTable makes chunks of more rows than n be read through each time.
func SetMaxTable(e *Engine, n int64) { e.maxTable = n }
