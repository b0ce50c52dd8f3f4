package duck

import (
	"slices"
	"strings"
)

// Functions that give numbers, times, truths or texts of a fixed length,
// whatever they are given, and nothing else but what they make of it.
const fixed = `
	~~ !~~ ~~* !~~* ~~~ ^@ @> <@ && <=> + - * / // % ** ^ & | << >> ~ @ xor !__postfix
	like_escape not_like_escape ilike_escape not_ilike_escape
	contains starts_with ends_with prefix suffix regexp_matches regexp_full_match
	length len strlen char_length character_length octet_length bit_length length_grapheme
	strpos instr position ascii ord unicode chr hash md5 sha1 sha256 md5_number typeof
	levenshtein editdist3 hamming mismatches jaccard jaro_similarity jaro_winkler_similarity
	abs add subtract multiply divide mod fmod fdiv sign signbit ceil ceiling floor round round_even trunc even
	sqrt cbrt exp ln log log2 log10 pow power pi sin cos tan cot asin acos atan atan2 sinh cosh tanh asinh acosh atanh
	degrees radians gamma lgamma factorial gcd greatest_common_divisor lcm least_common_multiple nextafter bit_count
	isnan isinf isfinite
	date_part datepart date_diff datediff date_sub datesub date_trunc datetrunc date_add time_bucket age last_day days_in_month
	year month day hour minute second millisecond microsecond nanosecond quarter decade century millennium era
	dayofmonth dayofweek dayofyear weekday week weekofyear yearweek isodow isoyear julian dayname monthname
	epoch epoch_ms epoch_us epoch_ns make_date make_time make_timestamp make_timestamp_ms make_timestamp_ns
	strptime try_strptime timezone to_timestamp
	to_years to_quarters to_months to_weeks to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds
	uuid_extract_timestamp uuid_extract_version
	list_contains list_has array_contains array_has list_has_any array_has_any list_has_all array_has_all
	list_position list_indexof array_position array_indexof list_unique array_unique array_length
	list_sum list_avg list_count list_product list_bool_and list_bool_or list_median list_stddev_pop list_stddev_samp
	list_var_pop list_var_samp
	json_valid json_array_length json_contains json_exists json_type`

// Functions that give as much as they are given, times a factor.
var growing = map[string]float64{
	"lower": 2, "lcase": 2, "upper": 2, "ucase": 2, "trim": 1, "ltrim": 1, "rtrim": 1, "reverse": 1, "strip_accents": 1,
	"nfc_normalize": 3, "substr": 1, "substring": 1, "substring_grapheme": 1, "left": 1, "right": 1, "left_grapheme": 1,
	"right_grapheme": 1, "split_part": 1, "regexp_extract": 1, "translate": 4, "hex": 2, "to_hex": 2, "base64": 2,
	"to_base64": 2, "from_base64": 1, "unhex": 1, "from_hex": 1, "encode": 1, "decode": 1, "url_encode": 3, "url_decode": 1,
	"regexp_escape": 3, "strftime": 16, "parse_filename": 1, "parse_dirname": 1, "parse_dirpath": 1,
	"||": 1, "concat": 1, "concat_ws": 1, "nullif": 1, "greatest": 1, "least": 1, "constant_or_null": 1,
	// A list has 16 bytes for each of its texts, however short.
	"string_split": listGrowth, "str_split": listGrowth, "split": listGrowth, "string_to_array": listGrowth,
	"string_split_regex": listGrowth, "str_split_regex": listGrowth, "regexp_split_to_array": listGrowth,
	"regexp_extract_all": listGrowth, "json_keys": listGrowth,
	"list_value": 1, "list_pack": 1, "list_extract": 1, "list_element": 1, "array_extract": 1, "list_slice": 1, "array_slice": 1,
	"list_sort": 1, "array_sort": 1, "list_reverse_sort": 1, "array_reverse_sort": 1, "list_distinct": 1, "array_distinct": 1,
	"list_concat": 1, "list_cat": 1, "array_concat": 1, "array_cat": 1, "list_append": 1, "array_append": 1, "list_prepend": 1,
	"array_prepend": 1, "list_intersect": 1, "array_intersect": 1, "list_min": 1, "list_max": 1, "list_first": 1, "list_last": 1,
	"list_reverse": 1, "array_reverse": 1, "flatten": 1,
	"json_extract": listGrowth, "json_extract_path": listGrowth, "json_extract_string": listGrowth,
	"json_extract_path_text": listGrowth, "->>": listGrowth, "json_value": listGrowth,
}

const listGrowth = 16

// replaced are functions whose growth lies in the text that they put in.
var replaced = []string{"replace", "regexp_replace"}

// paths are functions with a path into JSON. A wildcard over all levels would
// give what is deep once for each of them.
var paths = []string{
	"json_extract", "json_extract_path", "json_extract_string", "json_extract_path_text", "->>", "json_value", "json_keys",
	"json_exists", "json_type", "json_array_length",
}

var fixedFunctions = func() map[string]bool {
	m := map[string]bool{}
	for _, name := range strings.Fields(fixed) {
		m[name] = true
	}
	return m
}()

// function checks a call.
func (c *checker) function(node map[string]any) (float64, error) {
	written, _ := node["function_name"].(string)
	name := strings.ToLower(written)
	orders, _ := node["order_bys"].(map[string]any)
	switch {
	case !empty(node["catalog"]) || !empty(node["schema"]) && node["schema"] != "main":
		return 0, refuse(node, "%q: write a function's name alone, as in lower(text)", written)
	case !empty(node["filter"]), !empty(orders["orders"]), !empty(node["distinct"]), !empty(node["export_state"]):
		return 0, refuse(node, "%s: FILTER, ORDER BY and DISTINCT are for aggregates, and a filter looks at one row", name)
	}
	children, _ := node["children"].([]any)
	sum, err := c.sum(node["children"])
	if err != nil {
		return 0, err
	}
	factor, ok := growing[name]
	if slices.Contains(paths, name) {
		many := len(children) < 2
		for _, arg := range children[min(1, len(children)):] {
			path, ok := constantText(arg)
			if !ok || strings.Contains(path, "**") || strings.Contains(path, "..") {
				return 0, refuse(node, "%s: a path is a text like '$.a.b' or '$.a[*]', without ** and ..", name)
			}
			many = many || strings.Contains(path, "*")
		}
		if !many && name != "json_keys" {
			factor = min(factor, 1) // one part of what is there
		}
	}
	switch {
	case ok:
		return sum * factor, nil
	case fixedFunctions[name]:
		return 1, nil
	case slices.Contains(replaced, name):
		return replacement(node, name, children, sum)
	}
	return 0, refuse(node, "function %s cannot be used in a filter; docs/api.md lists those that can", shorten(written, 60))
}

// replacement is how much longer a text becomes by putting another one in.
func replacement(node map[string]any, name string, children []any, sum float64) (float64, error) {
	if len(children) < 3 {
		return 0, refuse(node, "%s takes a text, what to look for and what to put in", name)
	}
	from, ok := constantText(children[1])
	to, okTo := constantText(children[2])
	if !ok || !okTo {
		return 0, refuse(node, "%s: what to look for and what to put in must be texts, not columns", name)
	}
	if name == "replace" {
		return sum * max(1, float64(len(to))/float64(max(1, len(from)))), nil
	}
	// A pattern may match nothing at every place, and \1 is at most the match.
	return sum * float64(1+len(to)+strings.Count(to, `\`)), nil
}

// constantText gives the text, or the number as text, that a node is.
func constantText(v any) (string, bool) {
	node, _ := v.(map[string]any)
	if node["class"] != "CONSTANT" {
		return "", false
	}
	value, _ := node["value"].(map[string]any)
	switch text := value["value"].(type) {
	case string:
		return text, true
	case interface{ String() string }:
		return text.String(), true
	}
	return "", false
}

// fixedTypes are types whose values have a fixed length.
var fixedTypes = []string{
	"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
	"FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
	"TIMESTAMP WITH TIME ZONE", "INTERVAL", "UUID",
}

// castGrowth is how much longer a value may become by a cast.
func castGrowth(node map[string]any, v any) (float64, error) {
	t, _ := v.(map[string]any)
	id, _ := t["id"].(string)
	info, _ := t["type_info"].(map[string]any)
	switch {
	case slices.Contains(fixedTypes, id):
		return 1, nil
	case id == "VARCHAR":
		return 4, nil // a byte of a BLOB is written as \xFF
	case id == "BLOB":
		return 1, nil
	case id == "LIST" && info != nil:
		inner, err := castGrowth(node, info["child_type"])
		return inner * listGrowth, err
	case id == "UNBOUND" && info["name"] == "JSON" && empty(info["schema"]) && empty(info["catalog"]) && empty(info["user_type_modifiers"]):
		return 4, nil
	}
	return 0, refuse(node, "a cast to this type cannot be used in a filter")
}
