package duck

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// placeError says what is not allowed, and where in the text it stands.
type placeError struct {
	offset int // in bytes; -1: not known
	reason string
}

// Error gives the reason.
func (e *placeError) Error() string { return e.reason }

// refuse reports what a node is not allowed to be.
func refuse(node map[string]any, format string, args ...any) error {
	e := &placeError{offset: -1, reason: fmt.Sprintf(format, args...)}
	if n, ok := node["query_location"].(json.Number); ok {
		if at, err := n.Int64(); err == nil { // DuckDB's largest number stands for nowhere
			e.offset = int(at) - len(before)
		}
	}
	return e
}

// checker walks the tree of an expression. It renames columns on its way, for a
// name could be that of something else in SQL.
type checker struct {
	columns []string
	seen    map[string]int
	depth   int
	growth  float64 // the most of any node
}

// The bounds of a tree.
const (
	maxDepth   = 200
	maxColumns = 256
	// maxGrowth is how many times as long as the values of a row, and the text
	// of the expression, what is made of them may be.
	maxGrowth = 256
)

// statement checks that there is one expression and nothing around it, and gives
// the tree to be run.
func (c *checker) statement(statement map[string]any) (map[string]any, error) {
	outer := &placeError{offset: -1, reason: oneExpression}
	if !empty(statement["named_param_map"]) {
		return nil, &placeError{offset: -1, reason: "there is nothing to put in for a parameter: write the value itself"}
	}
	node, ok := statement["node"].(map[string]any)
	if !ok || node["type"] != "SELECT_NODE" {
		return nil, outer
	}
	from, _ := node["from_table"].(map[string]any)
	if from["type"] != "EMPTY" {
		return nil, &placeError{offset: -1, reason: "it asks the rows of the dataset, and no other table"}
	}
	cte, _ := node["cte_map"].(map[string]any)
	for _, v := range []any{
		node["modifiers"], node["where_clause"], node["group_expressions"], node["group_sets"], node["having"], node["sample"], node["qualify"], cte["map"],
	} {
		if !empty(v) {
			return nil, outer
		}
	}
	list, _ := node["select_list"].([]any)
	if len(list) != 1 {
		return nil, outer
	}
	top, ok := list[0].(map[string]any)
	if !ok || top["alias"] != "" {
		return nil, outer
	}
	if _, err := c.expr(top); err != nil {
		return nil, err
	}
	return map[string]any{"error": false, "statements": []any{statement}}, nil
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	case bool:
		return !v
	}
	return false
}

// nodes are the classes of nodes that may be, and the members that one has
// besides class, type, alias and query_location.
var nodes = map[string][]string{
	"CONSTANT":    {"value"},
	"COLUMN_REF":  {"column_names"},
	"COMPARISON":  {"left", "right"},
	"CONJUNCTION": {"children"},
	"OPERATOR":    {"children"},
	"BETWEEN":     {"input", "lower", "upper"},
	"CASE":        {"case_checks", "else_expr"},
	"CAST":        {"child", "cast_type", "try_cast"},
	"FUNCTION":    {"function_name", "schema", "catalog", "children", "filter", "order_bys", "distinct", "is_operator", "export_state"},
	"LAMBDA":      {"lhs", "expr"},
}

// called is what people call the classes that may not be.
var called = map[string]string{
	"SUBQUERY": "a subquery", "STAR": "*", "WINDOW": "a window function", "PARAMETER": "a parameter",
	"POSITIONAL_REFERENCE": "the number of a column", "DEFAULT": "DEFAULT", "COLLATE": "COLLATE (use lower(…))",
}

var operators = []string{
	"OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_COALESCE",
	"OPERATOR_TRY", "ARRAY_EXTRACT", "ARRAY_SLICE", "ARRAY_CONSTRUCTOR",
}

// expr checks a node and all below it, and gives how many times as long as the
// values of a row its value may be.
func (c *checker) expr(v any) (growth float64, err error) {
	node, ok := v.(map[string]any)
	if !ok {
		return 0, &placeError{offset: -1, reason: oneExpression}
	}
	if c.depth++; c.depth > maxDepth {
		return 0, refuse(node, "it nests more than %d deep", maxDepth)
	}
	defer func() { c.depth-- }()
	class, _ := node["class"].(string)
	if class == "LAMBDA" {
		if err := arrow(node); err != nil {
			return 0, err
		}
		class = "FUNCTION"
	}
	members, ok := nodes[class]
	if !ok {
		name := called[class]
		if name == "" {
			name = strings.ToLower(class)
		}
		return 0, refuse(node, "%s cannot be used in a filter", name)
	}
	for key := range node {
		if !slices.Contains(members, key) && key != "class" && key != "type" && key != "alias" && key != "query_location" {
			return 0, refuse(node, "%s of %s cannot be used in a filter", key, strings.ToLower(class))
		}
	}
	if !empty(node["alias"]) {
		return 0, refuse(node, "a name cannot be given in a filter")
	}
	growth, err = c.node(class, node)
	if err == nil && growth > maxGrowth {
		return 0, refuse(node, "what it makes could be %.0f times as long as the values that it is made of; %d times are allowed", growth, maxGrowth)
	}
	c.growth = max(c.growth, growth)
	return growth, err
}

func (c *checker) node(class string, node map[string]any) (float64, error) {
	switch class {
	case "CONSTANT":
		return 1, constant(node)
	case "COLUMN_REF":
		return 1, c.column(node)
	case "COMPARISON", "BETWEEN":
		for _, side := range []string{"left", "right", "input", "lower", "upper"} {
			if child, ok := node[side]; ok {
				if _, err := c.expr(child); err != nil {
					return 0, err
				}
			}
		}
		return 1, nil
	case "CONJUNCTION":
		_, err := c.sum(node["children"])
		return 1, err
	case "OPERATOR":
		if kind, _ := node["type"].(string); !slices.Contains(operators, kind) {
			return 0, refuse(node, "%s cannot be used in a filter", strings.ToLower(kind))
		}
		return c.sum(node["children"])
	case "CASE":
		return c.choice(node)
	case "CAST":
		growth, err := c.expr(node["child"])
		if err != nil {
			return 0, err
		}
		factor, err := castGrowth(node, node["cast_type"])
		return growth * factor, err
	}
	return c.function(node)
}

// sum checks some nodes; together they may be as long as all of them.
func (c *checker) sum(v any) (float64, error) {
	list, _ := v.([]any)
	total := 0.0
	for _, child := range list {
		g, err := c.expr(child)
		if err != nil {
			return 0, err
		}
		total += g
	}
	return max(total, 1), nil
}

func (c *checker) choice(node map[string]any) (float64, error) {
	total := 0.0
	checks, _ := node["case_checks"].([]any)
	for _, v := range checks {
		check, _ := v.(map[string]any)
		if _, err := c.expr(check["when_expr"]); err != nil {
			return 0, err
		}
		then, err := c.expr(check["then_expr"])
		if err != nil {
			return 0, err
		}
		total += then
	}
	otherwise, err := c.expr(node["else_expr"])
	return total + otherwise, err
}

// column gives a column the name that it has in the windows of rows.
func (c *checker) column(node map[string]any) error {
	var parts []string
	list, _ := node["column_names"].([]any)
	for _, v := range list {
		part, ok := v.(string)
		if !ok {
			return refuse(node, "a column without a name")
		}
		parts = append(parts, part)
	}
	name := strings.Join(parts, ".")
	if name == "" {
		return refuse(node, "a column without a name")
	}
	n, ok := c.seen[name]
	if !ok {
		if n = len(c.columns); n == maxColumns {
			return refuse(node, "it names more than %d columns", maxColumns)
		}
		c.columns, c.seen[name] = append(c.columns, name), n
	}
	node["column_names"] = []any{columnName(n)}
	return nil
}

// constant makes a number with an exponent a cast of its text: DuckDB would write
// it without one, and read a DECIMAL again.
func constant(node map[string]any) error {
	value, _ := node["value"].(map[string]any)
	t, _ := value["type"].(map[string]any)
	if t["id"] != "DOUBLE" || value["is_null"] == true {
		return nil
	}
	n, ok := value["value"].(json.Number)
	if !ok {
		return refuse(node, "a number that no DOUBLE holds")
	}
	text := map[string]any{
		"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": node["query_location"],
		"value": map[string]any{"type": map[string]any{"id": "VARCHAR", "type_info": nil}, "is_null": false, "value": n.String()},
	}
	delete(node, "value")
	maps.Copy(node, map[string]any{"class": "CAST", "type": "OPERATOR_CAST", "child": text, "cast_type": t, "try_cast": false})
	return nil
}

// arrow makes x -> 'path', which DuckDB's parser takes for a function of x, what
// it is: a part of JSON.
func arrow(node map[string]any) error {
	path, _ := node["expr"].(map[string]any)
	if path["class"] != "CONSTANT" {
		return refuse(node, "a lambda cannot be used in a filter")
	}
	lhs := node["lhs"]
	maps.DeleteFunc(node, func(key string, _ any) bool { return key == "lhs" || key == "expr" })
	maps.Copy(node, map[string]any{
		"class": "FUNCTION", "type": "FUNCTION", "function_name": "json_extract", "schema": "", "catalog": "",
		"children": []any{lhs, path}, "filter": nil, "order_bys": map[string]any{"type": "ORDER_MODIFIER", "orders": []any{}},
		"distinct": false, "is_operator": false, "export_state": false,
	})
	return nil
}

// truthCast gives the truth that a node is. DuckDB reads true as a cast of 't',
// writes it as 't', and has others that it made itself.
func truthCast(node map[string]any) (string, bool) {
	if node["class"] == "CAST" && node["try_cast"] == false {
		if t, _ := node["cast_type"].(map[string]any); t["id"] == "BOOLEAN" {
			switch text, _ := constantText(node["child"]); text {
			case "t", "true":
				return "true", true
			case "f", "false":
				return "false", true
			}
		}
		return "", false
	}
	value, _ := node["value"].(map[string]any)
	if truth, ok := value["value"].(bool); ok && node["class"] == "CONSTANT" {
		return fmt.Sprint(truth), true
	}
	return "", false
}

// plain is a tree without what does not change its meaning: where its parts
// stood in the text, whether a function was spelled as an operator or with its
// schema, and how a truth is spelled.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if list, ok := v["statements"].([]any); ok && len(list) == 1 {
			return plain(list[0])
		}
		if truth, ok := truthCast(v); ok {
			return truth
		}
		out := map[string]any{}
		for key, member := range v {
			if key != "query_location" && key != "is_operator" && key != "schema" {
				out[key] = plain(member)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, member := range v {
			out[i] = plain(member)
		}
		return out
	}
	return v
}
