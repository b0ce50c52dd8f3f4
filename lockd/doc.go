// Package lockd keeps leases and mutexes as objects in a store.
//
// A lease is a claim on a name that ends by itself unless it is renewed. It lies
// in one object, which is created to take it for the first time (If-None-Match)
// and replaced by compare-and-swap from then on (If-Match): to renew it, to
// release it, and to take it over when it has ended. The object is never
// deleted, so the token in it only grows: what a holder does under an old token
// can be told from what the present one does.
//
// Time is the store's. A lease ends when the store's clock (Date) is past the
// moment at which the store wrote the object (Last-Modified) by more than the
// time to live that the object names. No clock of a machine is compared with
// that of another: a holder counts, on its monotonic clock, from before it sent
// the request, so it never believes in a lease for longer than others must.
//
// [Leases] speaks this protocol straight to a store. [Server] speaks it for
// others over HTTP, and serves those who wait for one name in their order;
// [Client] talks to a Server and has the methods of Leases. A mutex is a lease
// held for as long as a connection is open.
package lockd
