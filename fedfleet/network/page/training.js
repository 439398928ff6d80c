// The worker of the page: trains beside it, so that the page stays quick. Progress waits for the page's word, which may be a pause.
import { Refused } from "./refused.js";
import { Stopped } from "./retries.js";
import { Trainer } from "./trainer.js";

const trainer = new Trainer();
let answer = null;

function tell(share, loss) {
  return new Promise((resolve, reject) => {
    answer = (go) => (go ? resolve() : reject(new Stopped()));
    postMessage({ progress: share, loss });
  });
}

onmessage = async ({ data }) => {
  if ("go" in data) {
    answer(data.go);
    return;
  }
  try {
    const result = await trainer[data.call](...data.values, tell);
    postMessage({ result }, result?.payload ? [result.payload.buffer] : []);
  } catch (error) {
    postMessage({ error: error.message, refused: error instanceof Refused, stopped: error instanceof Stopped });
  }
};
