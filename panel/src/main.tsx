import { render } from "preact";
import { connect, isSignedIn } from "./app/connection";
import { signIn, takeLink } from "./wire/session";
import { App } from "./views/App";
import { signInTrouble } from "./views/SignedOut";
import "./style/base.css";
import "./style/list.css";
import "./style/thread.css";
import "./style/forms.css";

async function begin(): Promise<void> {
  const link = takeLink();
  if (link !== null) {
    signInTrouble.value = await signIn(link);
    isSignedIn.value = signInTrouble.value === null || isSignedIn.value;
  }
  connect();
  render(<App />, document.getElementById("app")!);
}

void begin();
