"""Asks a language model about each text, and says what that cost.

    export LLM_URL=http://127.0.0.1:8000/v1/chat/completions   # any server of the OpenAI chat API
    siltstone annotate corpus --annotator topic --columns text --where '{"column":"lang","op":"eq","value":"en"}' \
        --concurrency 8 --rate 20/s --retry 2 --timeout 60s --budget cost_usd=5 -- python3 examples/ask_llm.py

What fails is left to the next run. What is done is stored and paid for once.
"""
import json, os, sys, time, urllib.error, urllib.request

URL = os.environ["LLM_URL"]
KEY = os.environ.get("LLM_API_KEY", "")
MODEL = os.environ.get("LLM_MODEL", "small")
USD_PER_MTOK_IN = float(os.environ.get("LLM_USD_PER_MTOK_IN", "0.10"))
USD_PER_MTOK_OUT = float(os.environ.get("LLM_USD_PER_MTOK_OUT", "0.40"))

PROMPT = 'Answer with JSON alone: {"topic": one or two words, "quality": a number from 0 to 1}. The text:\n\n'


def ask(text):
    body = {"model": MODEL, "temperature": 0, "messages": [{"role": "user", "content": PROMPT + text[:8000]}]}
    headers = {"Content-Type": "application/json"}
    if KEY:
        headers["Authorization"] = "Bearer " + KEY
    began = time.monotonic()
    request = urllib.request.Request(URL, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=50) as response:
        reply = json.load(response)
    usage = reply.get("usage", {})
    cost = usage.get("prompt_tokens", 0) * USD_PER_MTOK_IN + usage.get("completion_tokens", 0) * USD_PER_MTOK_OUT
    metadata = {"model": MODEL, "cost_usd": cost / 1e6, "seconds": round(time.monotonic() - began, 3)}
    return reply["choices"][0]["message"]["content"], metadata


for line in sys.stdin:
    row = json.loads(line)
    answer = {"id": row["id"]}
    try:
        said, answer["metadata"] = ask(row["data"].get("text") or "")
        answer["data"] = json.loads(said)
    except urllib.error.HTTPError as e:
        answer["error"] = f"HTTP {e.code}"
    except Exception as e:  # whatever it is, it costs this row and no other
        answer["error"] = f"{type(e).__name__}: {e}"
    print(json.dumps(answer), flush=True)
