// A button on each block of code that copies it. Where commands are beside their output, only the commands.
// And code in text whose lines end between words: no option is cut after its dashes.
"use strict";

function keepWordsWhole() {
  for (const word of document.querySelectorAll("code.literal span.pre")) {
    if (word.textContent.length < 32) {
      word.style.whiteSpace = "nowrap";
    } else if (!word.childElementCount) {
      word.innerHTML = word.innerHTML.replaceAll("/", "/<wbr>");
    }
  }
}

function commandsOf(text) {
  const commands = text.split("\n").filter((line) => line.startsWith("$ "));
  return commands.length ? commands.map((line) => line.slice(2)).join("\n") + "\n" : text;
}

document.addEventListener("DOMContentLoaded", () => {
  keepWordsWhole();
  if (!navigator.clipboard) {
    return; // Browsers offer it to pages from https and this machine only.
  }
  for (const block of document.querySelectorAll("div.highlight")) {
    const code = block.querySelector("pre").textContent;
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(commandsOf(code));
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    block.append(button);
  }
});
