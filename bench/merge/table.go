package main

import "fmt"

// print prints the tables of bench/README.md.
func (c *contest) print(made corpus) {
	fmt.Printf("\n%d rows, %.1f MB in chunks of %d rows by %d writers, %.0f %% duplicates; %d rows stay.\n\n",
		made.rows, float64(made.bytes)/1e6, chunkRows, writers, duplicates*100, made.unique)
	fmt.Println("| what | n | CPU s | of the store | wall s | peak MB |\n|---|---|---|---|---|---|")
	for _, way := range ways {
		if costs := c.costs[way]; len(costs) > 0 {
			m := median(costs)
			store := ""
			if m.server > 0 {
				store = fmt.Sprintf("%.2f", m.server.Seconds())
			}
			fmt.Printf("| %s | %d | %.2f | %s | %.2f | %d |\n", titles[way], len(costs), m.cpu.Seconds(), store, m.wall.Seconds(), m.rss>>20)
		}
	}
	fmt.Println("\n| ratio | CPU | goal | wall | goal |\n|---|---|---|---|---|")
	c.ratio("engine", "floor", "<= 1.5", "")
	c.ratio("duckdb", "engine", ">= 9", ">= 12")
	c.ratio("lean", "engine", ">= 1.8", ">= 3")
	c.ratio("plain", "engine", "", "")
	c.ratio("command", "engine", "", "")
}

func (c *contest) ratio(way, to, cpuGoal, wallGoal string) {
	if len(c.costs[way]) == 0 || len(c.costs[to]) == 0 {
		return
	}
	a, b := median(c.costs[way]), median(c.costs[to])
	fmt.Printf("| %s to %s | %.2f | %s | %.2f | %s |\n", way, to, a.cpu.Seconds()/b.cpu.Seconds(), cpuGoal, a.wall.Seconds()/b.wall.Seconds(), wallGoal)
}
