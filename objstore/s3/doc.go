// Package s3 keeps objects in Amazon S3 or a store that speaks its protocol. It
// is the only package that imports the S3 SDK.
//
// The SDK signs, encodes and sends. What a request means when its answer is lost
// is decided here, because the SDK's own retries hide it: each attempt is one SDK
// call, and a conditional write whose earlier attempt may have had an effect is
// settled by reading back (see Store.Put). Requests that a store throttles slow
// down all goroutines of a Store together (see pace).
package s3
