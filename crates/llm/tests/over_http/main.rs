//! The contracts over HTTP, against a real server on loopback that also misbehaves.

mod cache;
mod chat;
mod fleet;
mod logprobs;
mod scoring;
mod server;
mod transport;
