//! A server that answers at once, for measurements of what stands before it: jobs, stores, machines.
//!
//! `cargo run --release -p gradus-llm --example scripted_server -- 127.0.0.1:8099` prints its address and runs until it is
//! killed. It answers `/v1/chat/completions` as a judge would: `\boxed{-1}` or the number of a step, by a hash of the
//! prompt, so that the same request always has the same answer. It keeps nothing, so that it can run for days.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "whoever starts it wants its address")]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            // A client that goes away ends its connection and nothing else.
            let _ = serve(stream).await;
        });
    }
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        let Some((head, body)) = request(&mut stream, &mut buffer).await? else { return Ok(()) };
        let answer = answer(&buffer[head..head + body]);
        buffer.drain(..head + body);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        stream.write_all(&[head.as_bytes(), answer.as_bytes()].concat()).await?;
    }
}

/// Reads a request; how long its head and its body are, or none at the end of the connection.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<(usize, usize)>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let body: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if buffer.len() >= end + 4 + body {
                return Ok(Some((end + 4, body)));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// A judge's answer to a request, and nothing else of it.
fn answer(body: &[u8]) -> String {
    let hash = blake3::hash(body).as_bytes()[0];
    let step = i16::from(hash % 4) - 1;
    let tokens = body.len() / 4;
    format!(
        "{{\"id\":\"scripted\",\"object\":\"chat.completion\",\"model\":\"scripted\",\"choices\":[{{\"index\":0,\
         \"message\":{{\"role\":\"assistant\",\"content\":\"I looked at every paragraph. \\\\boxed{{{step}}}\"}},\
         \"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":{tokens},\"completion_tokens\":9,\
         \"total_tokens\":{}}}}}",
        tokens + 9
    )
}
