#!/bin/sh
# Makes Temporal's two databases, or brings them to this version's schema. Safe to repeat; what is newer stays.
set -eu

SQL_PASSWORD="$(cat /run/secrets/postgres_password)"
export SQL_PASSWORD

sql() {
    temporal-sql-tool --plugin postgres12 --ep postgresql -p 5432 -u temporal "$@"
}

for each in temporal:temporal temporal_visibility:visibility; do
    database=${each%:*}
    sql --db "$database" create
    sql --db "$database" setup-schema -v 0.0
    sql --db "$database" update-schema -d "/etc/temporal/schema/postgresql/v12/${each#*:}/versioned"
done
