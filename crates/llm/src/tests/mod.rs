//! The contracts over HTTP, against a real server on loopback that also misbehaves.

mod balancer;
mod cache;
mod chat;
mod continuation;
mod logprobs;
mod scoring;
mod server;
mod transport;
