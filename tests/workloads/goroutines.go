// SPDX-License-Identifier: BSD-2-Clause

// Goroutines: they change threads in the middle of calls, and their stacks are copied to another
// place as they grow. For the protocol see known.h.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	goroutines = 40
	calls      = 20
	depth      = 150
)

var outerNs, innerNs, sink int64

//go:noinline
func deepen(n int) int {
	var room [256]byte
	room[n%256] = byte(n)
	if n == 0 {
		return int(room[0])
	}
	return deepen(n-1) + int(room[n%256])
}

//go:noinline
func inner(n int) {
	begin := time.Now()
	atomic.AddInt64(&sink, int64(deepen(depth)))
	time.Sleep(time.Millisecond)
	runtime.Gosched()
	atomic.AddInt64(&innerNs, int64(time.Since(begin)))
}

//go:noinline
func outer(n int) {
	begin := time.Now()
	inner(n)
	time.Sleep(time.Millisecond)
	inner(n + 1)
	atomic.AddInt64(&outerNs, int64(time.Since(begin)))
}

//go:noinline
func fails(n int) {
	if n%2 == 0 {
		panic("on purpose")
	}
	time.Sleep(100 * time.Microsecond)
}

//go:noinline
func recovers(n int) (failed bool) {
	defer func() { failed = recover() != nil }()
	fails(n)
	return
}

func run() {
	var all sync.WaitGroup
	for g := 0; g < goroutines; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < calls; i++ {
				outer(i)
				if recovers(i) != (i%2 == 0) {
					fmt.Fprintln(os.Stderr, "harmed: a panic was not recovered")
					os.Exit(1)
				}
			}
		}()
	}
	all.Wait()
}

func main() {
	runtime.GOMAXPROCS(4)
	fmt.Println("ready", os.Getpid())
	runs := int64(0)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); runs++ {
		run()
		fmt.Println("done")
	}
	outers := runs * goroutines * calls
	for _, promise := range []struct {
		name, key string
		value     int64
	}{
		{"main.outer", "calls", outers}, {"main.outer", "own_ns", outerNs},
		{"main.inner", "calls", 2 * outers}, {"main.inner", "own_ns", innerNs},
		{"main.deepen", "calls", 2 * outers * (depth + 1)},
		{"main.recovers", "calls", outers}, {"main.recovers", "unwound", 0},
		{"main.fails", "calls", outers}, {"main.fails", "unwound", outers / 2},
		{"main.outer", "unwound", 0}, {"main.inner", "unwound", 0}, {"main.deepen", "unwound", 0},
	} {
		fmt.Println("expect", promise.name, promise.key, promise.value)
	}
}
