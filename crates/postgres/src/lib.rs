//! The way to a PostgreSQL server, which the store of jobs and the pools of solved problems share.
//!
//! - [`Address`]: where a database is; what is shown of it never holds the password
//! - [`Connection`]: statements that are prepared once, transactions in one round trip, and which errors pass
//! - [`Line`]: calls that are made again on a new connection while the server is away
//! - [`Tables`]: tables that are made, and brought up to date, by whoever comes first
//! - [`Handle`]: a line on a thread of its own, for callers in any runtime
//!
//! ```no_run
//! # async fn count() -> Result<(), Box<dyn std::error::Error>> {
//! use gradus_postgres::{Address, Handle};
//! let (address, _) = Address::parse("postgres://gradus@db.example.com/postgres", &[])?;
//! let server: Handle = Handle::open(address, std::time::Duration::from_secs(60)).await?;
//! let rows = server.run(async |connection| connection.query("SELECT 1", &[]).await).await?;
//! assert_eq!(rows[0].get::<_, i32>(0), 1);
//! # Ok(())
//! # }
//! ```

mod address;
mod connection;
mod handle;
mod line;
mod tables;
mod tls;

pub use address::{Address, AddressError};
pub use connection::{Attempt, Connection, Outlook, Parameters, outlook, why};
pub use handle::{By, Call, Handle};
pub use line::{CallError, Line};
pub use tables::{LOCK, Tables};
