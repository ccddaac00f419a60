//! The address of a PostgreSQL database: `postgres://user:password@host:port/database?sslmode=require&schema=gradus`.
//!
//! What is shown of it never holds the password. Settings are those of tokio-postgres, `sslmode` as `tls.rs` says, and
//! `schema`, in which the tables are and which is made where it is missing. Who uses an address may know further ones.

use std::time::Duration;

use thiserror::Error;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::tls::Tls;

/// Settings that an address may have besides `sslmode` and `schema`.
const SETTINGS: [&str; 17] = [
    "application_name",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "password",
    "port",
    "sslnegotiation",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// Why an address cannot be understood. No part of it is told: it may be one of the password.
#[derive(Debug, Clone, Error)]
#[error("{0}")]
pub struct AddressError(pub String);

/// Where a database is, and how it is connected to.
#[derive(Clone)]
pub struct Address {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
    /// The schema of the tables, where one is named.
    pub schema: Option<String>,
    /// Without the password.
    pub shown: String,
}

impl Address {
    /// Whether a text is the address of a PostgreSQL database, right or wrong.
    pub fn is_one(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// An address, right or wrong, without the password that may be in it.
    pub fn without_password(url: &str) -> String {
        let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
        // A password may hold anything, a question mark included: what is before the last @ is shown up to a colon.
        let (who, place) = match rest.rsplit_once('@') {
            Some((who, place)) => (format!("{}@", who.split([':', '?']).next().unwrap_or_default()), place),
            None => (String::new(), rest),
        };
        let (place, settings) = place.split_once('?').unwrap_or((place, ""));
        let settings: Vec<&str> = settings
            .split('&')
            .filter(|setting| !setting.is_empty() && !setting.starts_with("password="))
            .collect();
        let mark = if settings.is_empty() { "" } else { "?" };
        format!("{scheme}://{who}{place}{mark}{}", settings.join("&"))
    }

    /// Reads an address. Settings whose names are among `own` are the caller's: they come back, in order.
    pub fn parse(url: &str, own: &[&str]) -> Result<(Self, Vec<(String, String)>), AddressError> {
        let refuse = |why: &str| AddressError(why.to_owned());
        let Some((scheme @ ("postgres" | "postgresql"), rest)) = url.split_once("://") else {
            return Err(refuse("it does not begin with postgres://"));
        };
        let (who, place) = rest.split_once('@').map_or(("", rest), |(who, place)| (who, place));
        let (place, settings) = place.split_once('?').unwrap_or((place, ""));
        if place.contains('@') {
            return Err(refuse("in a name or password, write @ as %40, : as %3A and / as %2F"));
        }
        let (mut ssl, mut schema, mut others, mut owned) = ("prefer", None, Vec::new(), Vec::new());
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            match setting.split_once('=').unwrap_or((setting, "")) {
                ("sslmode", value) => ssl = value,
                ("schema", value) if is_name(value) => schema = Some(value.to_owned()),
                ("schema", _) => {
                    return Err(refuse("its schema must be a name of small letters, digits and _"));
                }
                (name, _) if SETTINGS.contains(&name) => others.push(setting),
                (name, value) if own.contains(&name) => owned.push((name.to_owned(), value.to_owned())),
                _ => {
                    let known = [own, &SETTINGS].concat().join(", ");
                    return Err(refuse(&format!(
                        "it has a setting that is not known; known are sslmode, schema, {known}"
                    )));
                }
            }
        }
        let others = others.join("&");
        let at = if who.is_empty() { "" } else { "@" };
        let parsed = format!("{scheme}://{who}{at}{place}?{others}").parse();
        let mut config: Config = parsed.map_err(|_| refuse("it cannot be read"))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(refuse("it names no host"));
        }
        let (mode, tls) = match ssl {
            "disable" => (SslMode::Disable, Tls::unchecked()),
            "prefer" => (SslMode::Prefer, Tls::unchecked()),
            "require" | "verify-ca" | "verify-full" => (SslMode::Require, Tls::checked()),
            _ => {
                return Err(refuse(
                    "its sslmode is none of disable, prefer, require, verify-ca and verify-full",
                ));
            }
        };
        let tls = tls.map_err(|error| refuse(&format!("TLS cannot be set up: {error}")))?;
        config.ssl_mode(mode);
        if let (None, Ok(password)) = (config.get_password(), std::env::var("PGPASSWORD")) {
            config.password(password);
        }
        set_defaults(&mut config, &others);
        if let Some(schema) = &schema {
            let options = config.get_options().unwrap_or_default();
            config.options(format!("{options} -c search_path={schema}").trim_start());
        }
        let shown = show(&config);
        Ok((Self { config, tls, schema, shown }, owned))
    }
}

/// A server that is cut off without a word is noticed within a minute or so.
fn set_defaults(config: &mut Config, given: &str) {
    if config.get_application_name().is_none() {
        config.application_name("gradus");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(10));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(60));
    }
    if !given.contains("keepalives") {
        config.keepalives_idle(Duration::from_secs(30)).keepalives_interval(Duration::from_secs(10));
        config.keepalives_retries(3);
    }
}

fn is_name(schema: &str) -> bool {
    let begins = schema.starts_with(|letter: char| letter.is_ascii_lowercase() || letter == '_');
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    begins && schema.len() <= 63 && schema.chars().all(plain)
}

fn show(config: &Config) -> String {
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let hosts: Vec<String> = match config.get_hosts() {
        [] => config.get_hostaddrs().iter().map(ToString::to_string).collect(),
        hosts => hosts
            .iter()
            .map(|host| match host {
                Host::Tcp(name) => name.clone(),
                #[cfg(unix)]
                Host::Unix(path) => path.display().to_string(),
            })
            .collect(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{}:{port}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_caller_come_back() {
        let url = "postgres://me:hidden@db.example/jobs?pool=math&sslmode=disable&pool=other";
        let (address, own) = Address::parse(url, &["pool"]).unwrap();
        assert_eq!(address.shown, "postgres://me@db.example:5432/jobs");
        assert_eq!(own, [("pool", "math"), ("pool", "other")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert!(Address::parse(url, &[]).is_err());
    }

    #[test]
    fn the_password_is_never_shown() {
        for url in [
            "postgres://me:hidden@db.example:6432/jobs?sslmode=disable",
            "postgresql://me:hidden@db.example:6432/jobs?schema=mine&application_name=x",
            "postgres://db.example:6432/jobs?user=me&password=hidden",
            "postgres://me:hid%40den@db.example:6432/jobs",
        ] {
            assert_eq!(
                Address::parse(url, &[]).unwrap().0.shown,
                "postgres://me@db.example:6432/jobs",
                "{url}"
            );
        }
        for url in [
            "postgres://me:1@hidden@db.example/jobs",
            "postgres://me:1@hidden:hidden/jobs",
            "postgres://me:1?hidden=2@db.example/jobs?hidden=3",
            "postgres://me:1@db.example/jobs?sslmode=hidden",
            "postgres://me:1@db.example/jobs?schema=Hidden%20",
            "host=db.example password=hidden",
            "mysql://me:hidden@db.example/jobs",
        ] {
            let error = Address::parse(url, &["pool"]).err().unwrap().to_string();
            assert!(!error.to_lowercase().contains("hidden"), "{url}: {error}");
        }
    }
}
