//! The address of a PostgreSQL database: `postgres://user:password@host:port/database?sslmode=require&schema=gradus`.
//!
//! What is shown of it never holds the password. Settings are those of tokio-postgres, `sslmode` as [`super::tls`] says,
//! and `schema`, in which the tables are and which is made where it is missing.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::Tls;
use crate::error::{Error, Result};

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

/// Where a database is, and how it is connected to.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: Tls,
    pub(super) schema: Option<String>,
    /// Without the password.
    pub(super) shown: String,
}

impl Address {
    /// No part of a wrong address is told: it may be one of the password.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let refuse = |why: &str| Error::Address { why: why.to_owned() };
        let Some((scheme @ ("postgres" | "postgresql"), rest)) = url.split_once("://") else {
            return Err(refuse("it does not begin with postgres://"));
        };
        let (who, place) = rest.split_once('@').map_or(("", rest), |(who, place)| (who, place));
        let (place, settings) = place.split_once('?').unwrap_or((place, ""));
        if place.contains('@') {
            return Err(refuse("in a name or password, write @ as %40, : as %3A and / as %2F"));
        }
        let (mut ssl, mut schema, mut others) = ("prefer", None, Vec::new());
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            match setting.split_once('=').unwrap_or((setting, "")) {
                ("sslmode", value) => ssl = value,
                ("schema", value) if is_name(value) => schema = Some(value.to_owned()),
                ("schema", _) => {
                    return Err(refuse("its schema must be a name of small letters, digits and _"));
                }
                (name, _) if SETTINGS.contains(&name) => others.push(setting),
                _ => {
                    let known = SETTINGS.join(", ");
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
        Ok(Self { config, tls, schema, shown })
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
    fn the_password_is_never_shown() {
        for url in [
            "postgres://me:hidden@db.example:6432/jobs?sslmode=disable",
            "postgresql://me:hidden@db.example:6432/jobs?schema=mine&application_name=x",
            "postgres://db.example:6432/jobs?user=me&password=hidden",
            "postgres://me:hid%40den@db.example:6432/jobs",
        ] {
            assert_eq!(Address::parse(url).unwrap().shown, "postgres://me@db.example:6432/jobs", "{url}");
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
            let error = Address::parse(url).err().unwrap().to_string();
            assert!(!error.to_lowercase().contains("hidden"), "{url}: {error}");
        }
    }
}
