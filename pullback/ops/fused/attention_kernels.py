from typing import Any
def attention_call(op: Any, b: Any, out: Any, *xs: Any) -> Any:
    return None
attention_gradient_call = attention_call
