package query

import "time"

// Clip is clip, which pages use.
var Clip = clip

// SetScanTime ends the search for rows of a page after d.
func SetScanTime(e *Engine, d time.Duration) { e.scanTime = d }

// SetMaxTable makes chunks of more rows than n be read through each time.
func SetMaxTable(e *Engine, n int64) { e.maxTable = n }
