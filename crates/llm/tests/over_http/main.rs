//! The contracts over HTTP, against a real server on loopback that also misbehaves.

mod chat;
mod loopback;
mod scoring;
mod transport;
