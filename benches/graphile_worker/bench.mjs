// Jobs per second of Graphile Worker in the PostgreSQL of GRADUS_TEST_POSTGRES: so many processes, each with 24 jobs in
// flight, do 20,000 jobs that do nothing. It keeps no results, so it does less than our store.
import { spawn } from "node:child_process";
import { Logger, makeWorkerUtils, runOnce } from "graphile-worker";

const connectionString = process.env.GRADUS_TEST_POSTGRES;
const JOBS = 20_000;
const logger = new Logger(() => () => {});

if (process.argv[2] === "work") {
  const began = Date.now();
  let done = 0;
  await runOnce({
    preset: {
      worker: {
        connectionString, logger, concurrentJobs: 24, maxPoolSize: 4, completeJobBatchDelay: 0, failJobBatchDelay: 0,
        localQueue: { size: 500 },
      },
    },
    taskList: { nothing: async () => { done += 1; } },
  });
  console.log(`${began} ${Date.now()} ${done}`);
  process.exit(0);
}

const utils = await makeWorkerUtils({ connectionString, logger });
await utils.migrate();
for (const workers of [1, 8, 64]) {
  const jobs = Array.from({ length: JOBS }, (_, number) => ({ identifier: "nothing", payload: { number } }));
  for (let at = 0; at < JOBS; at += 2_000) await utils.addJobs(jobs.slice(at, at + 2_000));
  const outputs = await Promise.all(Array.from({ length: workers }, () => new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [process.argv[1], "work"], { stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    child.stdout.on("data", (piece) => { text += piece; });
    child.on("close", (code) => (code === 0 ? resolve(text.trim().split(" ").map(Number)) : reject(new Error(`exit ${code}`))));
  })));
  const done = outputs.reduce((sum, [, , count]) => sum + count, 0);
  const seconds = (Math.max(...outputs.map(([, end]) => end)) - Math.min(...outputs.map(([begin]) => begin))) / 1000;
  if (done !== JOBS) throw new Error(`${done} of ${JOBS} jobs were done`);
  console.log(`Graphile Worker, ${workers} workers: ${Math.round(JOBS / seconds)} jobs/s`);
}
await utils.release();
