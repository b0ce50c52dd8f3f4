package duck

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/duckdb/duckdb-go/v2"
)

// sandbox is a database in memory that reaches nothing outside of it.
type sandbox struct {
	connector *duckdb.Connector
	db        *sql.DB // keeps the connector, and is not used again
}

// rowsFunction is the table function that gives the rows of a source.
const rowsFunction = "rows_of"

// settings close the box. Their order matters: what says where external access
// may go can only be set while it may go anywhere, and nothing can be set when
// the configuration is locked. Nothing that an expression may be can spill, so
// there is no folder to spill to.
func settings(memory int64) []string {
	return []string{
		"SET temp_directory = ''",
		fmt.Sprintf("SET memory_limit = '%dB'", memory),
		"SET threads = 1", // windows are small: a second thread would wait for the first
		"SET TimeZone = 'UTC'",
		"SET enable_progress_bar = false",
		"SET autoinstall_known_extensions = false",
		"SET autoload_known_extensions = false",
		"SET allow_community_extensions = false",
		"SET enable_external_access = false",
		"SET lock_configuration = true",
	}
}

func newSandbox(cfg Config, find func(number int64) (*source, error)) (*sandbox, error) {
	c, err := duckdb.NewConnector("?autoload_known_extensions=false&autoinstall_known_extensions=false", nil)
	if err != nil {
		return nil, err
	}
	b := &sandbox{connector: c, db: sql.OpenDB(c)}
	if err := b.close(cfg, find); err != nil {
		b.db.Close()
		return nil, err
	}
	return b, nil
}

// close makes the table function and shuts the box.
func (b *sandbox) close(cfg Config, find func(int64) (*source, error)) error {
	ctx := context.Background() // the database is for all who come
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	number, err := duckdb.NewTypeInfo(duckdb.TYPE_BIGINT)
	if err != nil {
		return err
	}
	err = duckdb.RegisterTableUDF(conn, rowsFunction, duckdb.ChunkTableFunction{
		Config: duckdb.TableFunctionConfig{Arguments: []duckdb.TypeInfo{number}},
		BindArguments: func(_ map[string]any, args ...any) (duckdb.ChunkTableSource, error) {
			n, _ := args[0].(int64)
			return find(n)
		},
	})
	if err != nil {
		return err
	}
	for _, s := range settings(cfg.memory()) {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}
